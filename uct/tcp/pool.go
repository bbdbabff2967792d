package tcp

import (
	"math/bits"

	"github.com/ucx-go/ucx/uct"
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

// Sizes of pieces: powers of two from smallPiece on. A largest frame that is not
// complete may not fit, and stays in its large buffer.
const (
	smallPiece = 512
	pieceSizes = 8
)

// piecePools keep buffers for what has arrived of incomplete frames.
type piecePools [pieceSizes]pool

func (p *piecePools) init() {
	for k := range p {
		p[k].size = smallPiece << k
	}
}

// get returns a buffer for n bytes and at most as many more, nil when they are
// too many.
func (p *piecePools) get(n int) *buffer {
	if k := pieceSize(n); k < pieceSizes {
		return p[k].get()
	}
	return nil
}

// put takes back what get returned.
func (p *piecePools) put(b *buffer) { p[pieceSize(len(b.data))].put(b) }

// pieceSize is the index of the smallest size for n bytes, which are not none.
func pieceSize(n int) int { return bits.Len(uint(n-1) / smallPiece) }

// op is a completion that waits for bytes to be written or for a put to be
// acknowledged.
type op struct {
	next *op
	comp *uct.Completion
	end  uint64 // position in the stream after the operation's last byte
	sn   uint32 // of the put
}

// opQueue is a FIFO of ops.
type opQueue struct {
	head, tail *op
}

func (q *opQueue) push(o *op) {
	if q.tail == nil {
		q.head = o
	} else {
		q.tail.next = o
	}
	q.tail = o
}

func (q *opQueue) pop() *op {
	o := q.head
	q.head = o.next
	if q.head == nil {
		q.tail = nil
	}
	return o
}

// opPool is a free list of ops.
type opPool struct {
	free *op
}

func (p *opPool) get() *op {
	o := p.free
	if o == nil {
		return new(op)
	}
	p.free, o.next = o.next, nil
	return o
}

// finish gives o back and tells its owner.
func (p *opPool) finish(o *op, err error) {
	comp := o.comp
	*o = op{next: p.free}
	p.free = o
	comp.Done(err)
}

// finishAll ends everything in q. The owners may add to q meanwhile; that is
// ended too.
func (p *opPool) finishAll(q *opQueue, err error) {
	for q.head != nil {
		p.finish(q.pop(), err)
	}
}
