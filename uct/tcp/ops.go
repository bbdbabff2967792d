//go:build linux

package tcp

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

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

// track adds a completion for everything accepted so far. comp may be nil.
func (c *conn) track(comp *uct.Completion) {
	if comp == nil {
		return
	}
	o := c.iface.svc.ops.get()
	o.comp, o.end = comp, c.accepted
	c.writes.push(o)
}

// due reports whether completions wait to be told.
func (c *conn) due() bool {
	o := c.writes.head
	return o != nil && o.end <= c.written
}

// complete tells the owners of operations whose bytes are written.
func (c *conn) complete() int {
	n := 0
	for c.due() {
		c.iface.svc.ops.finish(c.writes.pop(), nil)
		n++
	}
	return n
}

// afterWrites completes comp when everything accepted so far is written, behind
// the completions of all that.
func (c *conn) afterWrites(comp *uct.Completion) error {
	if c.written == c.accepted && c.writes.head == nil {
		return nil
	}
	c.track(comp)
	c.iface.svc.markDirty(c)
	return ucs.InProgress
}

// waitAck adds a completion for all puts so far. comp may be nil.
func (c *conn) waitAck(comp *uct.Completion) {
	if comp == nil {
		return
	}
	o := c.iface.svc.ops.get()
	o.comp, o.sn = comp, c.putSN
	c.acks.push(o)
}

// acked is told that the peer has done all puts up to sn.
func (c *conn) acked(sn uint32) {
	if int32(sn-c.ackSN) <= 0 || int32(c.putSN-sn) < 0 {
		return // known already, or never sent
	}
	if sn == c.putSN && c.written < c.putEnd {
		return // not sent yet; its memory is still in use
	}
	c.ackSN = sn
	c.complete() // what was written before is over before
	for o := c.acks.head; o != nil && int32(sn-o.sn) >= 0; o = c.acks.head {
		c.iface.svc.ops.finish(c.acks.pop(), nil)
	}
}

// endOps ends all operations of c with err.
func (c *conn) endOps(err error) {
	ops := &c.iface.svc.ops
	ops.finishAll(&c.writes, err)
	ops.finishAll(&c.acks, err)
}
