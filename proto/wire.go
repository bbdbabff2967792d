package proto

import (
	"encoding/binary"
	"math"
)

// le is the byte order of the wire: UCX sends in host order and runs on
// little-endian machines.
var le = binary.LittleEndian

// maxSize is the largest length, count or offset taken from a peer: anything beyond
// is malformed. No process has so much memory (128 TiB, all that amd64 gives a process
// that does not ask for more; less where pointers have 32 bits), and sums of such
// numbers do not wrap around.
const maxSize = min(1<<47, math.MaxInt/2)

// reader walks bytes from a peer. Reading past the end sets short and yields
// zeros from then on, so a parser checks once per group of fields.
type reader struct {
	b     []byte
	off   int
	short bool
}

func (r *reader) rest() int { return len(r.b) - r.off }

// take returns the next n bytes, capped so that an append cannot touch what
// follows.
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
