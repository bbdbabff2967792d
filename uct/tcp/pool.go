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
	next *buffer // in the free list of a pool
}

// pool is a free list of buffers of one size. The buffer returned last is reused first, because
// its memory is the most likely to be in the CPU's caches.
type pool struct {
	size int
	free *buffer
	idle int // buffers in free
	used int // buffers taken and not returned
}

// maxIdleBytes is the memory in bytes that a pool keeps in its free list.
const maxIdleBytes = 8 << 20

// poolOf returns the pool for a buffer size, and makes it if necessary.
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

// Sizes in bytes of pieces, the buffers that hold the received part of an incomplete frame: powers
// of two from smallPiece on. Pieces larger than bigPiece occur only with large segments
// (RX_SEG_SIZE) and are not kept in a free list.
const (
	smallPiece = 512
	bigPiece   = 64 << 10
	pieceSizes = 22 // up to maxSeg
)

const _ = uint(smallPiece<<(pieceSizes-1) - maxSeg) // fails to compile if a largest frame needs more

// piecePools are the pools of buffers for the parts of incomplete frames that have arrived.
type piecePools [pieceSizes]pool

func (p *piecePools) init() {
	for k := range p {
		p[k].size = smallPiece << k
	}
}

// get returns a buffer of the smallest size that holds n bytes, or nil if that size is not smaller
// than the parameter most.
func (p *piecePools) get(n, most int) *buffer {
	if k := pieceSize(n); k < pieceSizes && p[k].size < most {
		return p[k].get()
	}
	return nil
}

// put returns a buffer that get has returned to its pool.
func (p *piecePools) put(b *buffer) {
	pool := &p[pieceSize(len(b.data))]
	if pool.size > bigPiece {
		pool.used--
		return
	}
	pool.put(b)
}

// pieceSize returns the index of the smallest size that holds n bytes; n > 0.
func pieceSize(n int) int { return bits.Len(uint(n-1) / smallPiece) }
