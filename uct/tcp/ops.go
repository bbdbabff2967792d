//go:build linux

package tcp

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// op is an operation whose completion waits for bytes to be written or for a put to be
// acknowledged.
type op struct {
	next *op
	comp *uct.Completion
	end  uint64 // position in the output stream after the operation's last byte
	sn   uint32 // number of the put whose acknowledgement completes the operation
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

// finish returns o to the free list and completes it with err.
func (p *opPool) finish(o *op, err error) {
	comp := o.comp
	*o = op{next: p.free}
	p.free = o
	comp.Done(err)
}

// finishAll completes all operations in q with err, including those that completion callbacks add
// to q meanwhile.
func (p *opPool) finishAll(q *opQueue, err error) {
	for q.head != nil {
		p.finish(q.pop(), err)
	}
}

// track queues comp, to be completed when all output accepted so far is written. comp may be nil.
func (c *conn) track(comp *uct.Completion) {
	if comp == nil {
		return
	}
	o := c.iface.svc.ops.get()
	o.comp, o.end = comp, c.accepted
	c.writes.push(o)
}

// due reports whether an operation is written but not completed.
func (c *conn) due() bool {
	o := c.writes.head
	return o != nil && o.end <= c.written
}

// complete completes the operations whose bytes are written, and returns their number.
func (c *conn) complete() int {
	n := 0
	for c.due() {
		c.iface.svc.ops.finish(c.writes.pop(), nil)
		n++
	}
	return n
}

// afterWrites completes comp when all output accepted so far is written, after the operations of
// that output. It returns nil, without completing comp, if nothing waits.
func (c *conn) afterWrites(comp *uct.Completion) error {
	if c.written == c.accepted && c.writes.head == nil {
		return nil
	}
	c.track(comp)
	c.iface.svc.markDirty(c)
	return ucs.InProgress
}

// waitAck queues comp, to be completed when all puts so far are acknowledged. comp may be nil.
func (c *conn) waitAck(comp *uct.Completion) {
	if comp == nil {
		return
	}
	o := c.iface.svc.ops.get()
	o.comp, o.sn = comp, c.putSN
	c.acks.push(o)
}

// acked handles the peer's acknowledgement of all puts up to sn.
func (c *conn) acked(sn uint32) {
	if int32(sn-c.ackSN) <= 0 || int32(c.putSN-sn) < 0 {
		return // acknowledged already, or never sent
	}
	if sn == c.putSN && c.written < c.putEnd {
		return // not written completely; its memory is still in use
	}
	c.ackSN = sn
	c.complete() // operations written earlier complete first
	for o := c.acks.head; o != nil && int32(sn-o.sn) >= 0; o = c.acks.head {
		c.iface.svc.ops.finish(c.acks.pop(), nil)
	}
}

// endOps completes all operations of c with err.
func (c *conn) endOps(err error) {
	ops := &c.iface.svc.ops
	ops.finishAll(&c.writes, err)
	ops.finishAll(&c.acks, err)
}
