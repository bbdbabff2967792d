//go:build linux

package tcp

import (
	"math/bits"
)

// buffer holds bytes r to w of a stream: received and not yet parsed, or
// accepted and not yet written.
type buffer struct {
	data []byte
	r, w int
	next *buffer // in a pool
}

// pool is a free list of buffers of one size. The one given back last is taken
// first: it is the warmest.
type pool struct {
	size int
	free *buffer
	idle int // buffers in free
	used int // buffers taken
}

// maxIdleBytes is how much memory a pool keeps for later.
const maxIdleBytes = 8 << 20

// poolOf returns the pool of a buffer size.
func poolOf(pools map[int]*pool, size int) *pool {
	p := pools[size]
	if p == nil {
		p = &pool{size: size}
		pools[size] = p
	}
	return p
}

func (p *pool) get() *buffer {
	p.used++
	b := p.free
	if b == nil {
		return &buffer{data: make([]byte, p.size)}
	}
	p.free, b.next = b.next, nil
	p.idle--
	return b
}

func (p *pool) put(b *buffer) {
	p.used--
	if p.idle*p.size >= maxIdleBytes {
		return
	}
	b.r, b.w = 0, 0
	b.next, p.free = p.free, b
	p.idle++
}

// Sizes of pieces: powers of two from smallPiece on. Those beyond bigPiece occur only
// with large segments (RX_SEG_SIZE) and are not kept for later.
const (
	smallPiece = 512
	bigPiece   = 64 << 10
	pieceSizes = 22 // up to maxSeg
)

const _ = uint(smallPiece<<(pieceSizes-1) - maxSeg) // fails to compile if a largest frame needs more

// piecePools keep buffers for what has arrived of incomplete frames.
type piecePools [pieceSizes]pool

func (p *piecePools) init() {
	for k := range p {
		p[k].size = smallPiece << k
	}
}

// get returns a buffer for n bytes and at most as many more, nil if it would be no
// smaller than most.
func (p *piecePools) get(n, most int) *buffer {
	if k := pieceSize(n); k < pieceSizes && p[k].size < most {
		return p[k].get()
	}
	return nil
}

// put takes back what get returned.
func (p *piecePools) put(b *buffer) {
	pool := &p[pieceSize(len(b.data))]
	if pool.size > bigPiece {
		pool.used--
		return
	}
	pool.put(b)
}

// pieceSize is the index of the smallest size for n bytes, which are not none.
func pieceSize(n int) int { return bits.Len(uint(n-1) / smallPiece) }
