package proto

import (
	"encoding/binary"
	"math"
)

// le is the byte order of the wire: UCX sends in host order and runs on
// little-endian machines.
var le = binary.LittleEndian

// maxSize is the largest length, count or offset accepted from a peer: anything beyond is
// malformed. No process has so much memory (128 TiB, the default limit of a process on amd64;
// less with 32-bit pointers), and the sum of two sizes does not overflow.
const maxSize = min(1<<47, math.MaxInt/2)

// reader reads fields from the bytes of a peer. Reading past the end sets short and returns zeros
// from then on, so a parser checks short once per group of fields.
type reader struct {
	b     []byte
	off   int
	short bool
}

func (r *reader) rest() int { return len(r.b) - r.off }

// take returns the next n bytes, with a capacity of n, so that an append cannot overwrite the
// bytes that follow.
func (r *reader) take(n int) []byte {
	if n > r.rest() {
		r.short = true
		r.off = len(r.b)
		return nil
	}
	s := r.b[r.off : r.off+n : r.off+n]
	r.off += n
	return s
}

func (r *reader) u8() uint8 {
	if s := r.take(1); s != nil {
		return s[0]
	}
	return 0
}

func (r *reader) u16() uint16 {
	if s := r.take(2); s != nil {
		return le.Uint16(s)
	}
	return 0
}

func (r *reader) u32() uint32 {
	if s := r.take(4); s != nil {
		return le.Uint32(s)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if s := r.take(8); s != nil {
		return le.Uint64(s)
	}
	return 0
}

func (r *reader) f32() float32 { return math.Float32frombits(r.u32()) }
