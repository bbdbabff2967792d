package sim

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// op is an outstanding operation. The operations of an endpoint end in order.
type op struct {
	next   *op
	comp   *uct.Completion
	due    uint64  // first round of the endpoint's iface in which the operation may end
	late   uint64  // injected delay
	err    error   // injected error, nil for success
	packet *packet // zero-copy message until it is read; guarded by net.mu
	sent   uint64  // remote flush, and access without a key: number of messages that the peer must have received
	access access  // remote memory access
	tap    tapID
}

// opQueue is the FIFO queue of the operations of one endpoint.
type opQueue struct {
	head, tail *op
	count      int
}

// newOp takes an operation from the free list.
func (i *iface) newOp() *op {
	o := i.ops
	if o == nil {
		return new(op)
	}
	i.ops, o.next = o.next, nil
	return o
}

// freeOp returns an operation to the free list. It keeps the buffer and the list for reuse.
func (i *iface) freeOp(o *op) {
	clear(o.access.iov)
	*o = op{next: i.ops, access: access{own: o.access.own[:0], iov: o.access.iov[:0]}}
	i.ops = o
}

// push appends o to the operations of e.
func (e *endpoint) push(o *op, late int) {
	o.due, o.late = e.home.now()+1+uint64(late), uint64(late)
	if e.home.o.Medium != nil {
		e.schedule(o)
	}
	if o.access.kind != 0 {
		e.tapAccess(o, false, false)
	}
	if e.ops.tail == nil {
		e.ops.head = o
	} else {
		e.ops.tail.next = o
	}
	e.ops.tail = o
	e.ops.count++
	e.home.net.mu.Lock()
	e.home.flying++
	e.activate()
	e.home.net.mu.Unlock()
}

// pop removes the first operation and returns its completion.
func (e *endpoint) pop() *uct.Completion {
	o := e.ops.head
	e.ops.head = o.next
	if e.ops.head == nil {
		e.ops.tail = nil
	}
	e.ops.count--
	e.home.net.mu.Lock()
	e.home.flying--
	e.home.net.mu.Unlock()
	if o.access.kind != 0 && e.home.o.Medium != nil {
		e.accessed()
	}
	c := o.comp
	e.home.freeOp(o)
	return c
}

// waitsForPeer reports whether o cannot end before the peer does something. The
// caller holds net.mu.
func (e *endpoint) waitsForPeer(o *op) bool {
	return o.packet != nil || e.arrived < o.sent || e.follows(o)
}

// runOps executes and ends the operations that are due and returns their number. A refused
// remote memory access fails the endpoint.
func (e *endpoint) runOps() int {
	n := 0
	for e.ops.head != nil && e.failed == nil {
		o := e.ops.head
		e.home.net.mu.Lock()
		e.takeAcks()
		waits := e.waitsForPeer(o)
		e.home.net.mu.Unlock()
		if waits || o.due > e.home.now() {
			break
		}
		err := o.err
		if err == nil && o.access.kind != 0 {
			if denied := e.perform(&o.access); denied != nil {
				e.fail(denied)
				return n + 1
			}
		}
		e.tapEnded(o, err)
		if c := e.pop(); c != nil {
			c.Done(err)
		}
		n++
	}
	return n
}

// endOps ends all operations with err.
func (e *endpoint) endOps(err error) {
	for e.ops.head != nil {
		e.tapEnded(e.ops.head, err)
		if c := e.pop(); c != nil {
			c.Done(err)
		}
	}
}

// flushed reports whether a flush with these flags has nothing to wait for.
func (e *endpoint) flushed(flags uct.FlushFlags) bool {
	if e.ops.head != nil {
		return false
	}
	e.home.net.mu.Lock()
	defer e.home.net.mu.Unlock()
	e.takeAcks()
	return !e.awaitsAcks(flags) || e.arrived == e.sent
}

// awaitsAcks reports whether a flush with these flags waits for the messages to arrive. A device that
// retransmits completes a send when it is acknowledged.
func (e *endpoint) awaitsAcks(flags uct.FlushFlags) bool {
	return flags&uct.FlushRemote != 0 || e.home.o.Death == DeathTimeout
}

// Flush implements uct.Endpoint.
func (e *endpoint) Flush(flags uct.FlushFlags, c *uct.Completion) error {
	if flags&uct.FlushCancel != 0 {
		if e.failed == nil {
			e.end(ucs.ErrCanceled, true)
		}
		return nil
	}
	if err := e.ready(); err != nil {
		return err
	}
	if e.flushed(flags) {
		return nil
	}
	o := e.home.newOp()
	o.comp = c
	if e.awaitsAcks(flags) {
		e.home.net.mu.Lock()
		o.sent = e.sent
		e.home.net.mu.Unlock()
	}
	e.tapAccess(o, true, flags&uct.FlushRemote != 0)
	e.push(o, 0)
	return ucs.InProgress
}
