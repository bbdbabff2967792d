package tcp

import "github.com/ucx-go/ucx/uct"

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
