//go:build linux && (amd64 || arm64)

package oracle_test

import (
	"bytes"
	"encoding/binary"

	"github.com/ucx-go/ucx/uct/ib/internal/abi"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Objects that both sides have created by the same call are twins. On separate devices they have
// the same numbers. On one card each has its own numbers: where our side names an object, libmlx5
// must name its twin. Nothing is excluded from the comparison.

// meet records the objects that a call has created.
func (p *pair) meet(name string, x, y []uint64) {
	if len(x) == 0 || len(y) == 0 {
		return
	}
	switch name {
	case "qp":
		q := &queuePair{number: uint32(x[0]), theirs: uint32(y[0])}
		if !p.card {
			q.theirs = q.number
		}
		p.qps[q.number], p.order = q, append(p.order, q)
	case "mr", "mw":
		if p.card {
			a, b := uint32(x[0]), uint32(y[0])
			p.keys = append(p.keys, [2]uint32{a, b}, [2]uint32{a ^ wrongKey, b ^ wrongKey})
		}
	}
}

// twin reports whether two numbers are the keys, or the queue pair numbers, of twins.
func (p *pair) twin(x, y uint64) bool {
	if !p.card || (x|y)>>32 != 0 {
		return false
	}
	if p.twinQP(uint32(x), uint32(y)) {
		p.differs("queue pair")
		return true
	}
	if p.twinKey(uint32(x), uint32(y)) {
		p.differs("key")
		return true
	}
	return false
}

func (p *pair) twinQP(x, y uint32) bool {
	q := p.qps[x]
	return q != nil && q.theirs == y
}

// twinKey reports whether two keys are those of twins, with their lowest 8 bits, which count the
// binds of a window, advanced equally often.
func (p *pair) twinKey(x, y uint32) bool {
	for _, k := range p.keys {
		if x>>8 == k[0]>>8 && y>>8 == k[1]>>8 && uint8(x-k[0]) == uint8(y-k[1]) {
			return true
		}
	}
	return false
}

// theirKey returns the twin of one of our keys.
func (p *pair) theirKey(v uint64) uint64 {
	for _, k := range p.keys {
		if v>>8 == uint64(k[0]>>8) {
			return uint64(k[1]&^0xff | uint32(uint8(k[1])+uint8(v)-uint8(k[0])))
		}
	}
	return v
}

// levelWords replaces the numbers of twins in two entries. They are words of the entry; the number
// of a queue pair is in the upper or lower 24 bits of a word, next to a number of segments, the
// lowest bits of a window's key, or a flag.
func (p *pair) levelWords(x, y []byte) {
	if !p.card {
		return
	}
	for i := 0; i+4 <= min(len(x), len(y)); i += 4 {
		a, b := binary.BigEndian.Uint32(x[i:]), binary.BigEndian.Uint32(y[i:])
		switch {
		case a == b:
			continue
		case p.twinKey(a, b):
			p.differs("key")
		case p.twinQP(a>>8, b>>8) && (a&0xff == b&0xff || p.twinTag(uint8(a), uint8(b))), p.twinQP(a&0xffffff, b&0xffffff) && a>>24 == b>>24:
			p.differs("queue pair")
		default:
			continue
		}
		copy(y[i:i+4], x[i:])
	}
}

// levelPadding replaces what follows the inline data of a send entry, up to the end of its segment.
func (p *pair) levelPadding(x, y []byte, q *queuePair) {
	const inline = 1 << 31 // MLX5_INLINE_SEG, in the length of a segment with inline data
	at := 16
	switch {
	case q.typ == verbs.UD:
		at = 64
	case x[3] == abi.MLX5_OPCODE_RDMA_WRITE, x[3] == abi.MLX5_OPCODE_RDMA_WRITE_IMM:
		at = 32
	}
	if !p.card || at >= len(x) || binary.BigEndian.Uint32(x[at:])&inline == 0 {
		return
	}
	end := at + 4 + int(binary.BigEndian.Uint32(x[at:])&^inline)
	if end < len(x) && !bytes.Equal(x[end:], y[end:]) {
		p.differs("padding")
		copy(y[end:], x[end:])
	}
}

// twinTag reports whether two values are the lowest bits of twin keys whose other bits are
// elsewhere.
func (p *pair) twinTag(x, y uint8) bool {
	for _, k := range p.keys {
		if x-uint8(k[0]) == y-uint8(k[1]) {
			return true
		}
	}
	return false
}
