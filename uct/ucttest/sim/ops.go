package sim

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// op is an accepted operation that is not over. Those of an endpoint end in
// their order.
type op struct {
	next   *op
	comp   *uct.Completion
	due    uint64  // round of the endpoint's iface before which it does not end
	err    error   // how it ends if nothing else goes wrong
	packet *packet // of a zero-copy message until it was read; guarded by net.mu
	sent   uint64  // of a remote flush: messages that must have arrived
	access access  // of an operation on remote memory
	tap    tapID
}

// opQueue is the operations of one endpoint.
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

// freeOp gives one back, keeping its buffer and list.
func (i *iface) freeOp(o *op) {
	clear(o.access.iov)
	*o = op{next: i.ops, access: access{own: o.access.own[:0], iov: o.access.iov[:0]}}
	i.ops = o
}

// push appends o to the operations of e.
func (e *endpoint) push(o *op, late int) {
	o.due = e.home.round + 1 + uint64(late)
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
}

// pop removes the first operation and returns its completion.
func (e *endpoint) pop() *uct.Completion {
	o := e.ops.head
	e.ops.head = o.next
	if e.ops.head == nil {
		e.ops.tail = nil
	}
	e.ops.count--
	c := o.comp
	e.home.freeOp(o)
	return c
}

// waitsForPeer reports whether o cannot end before the peer does something. The
// caller holds net.mu.
func (e *endpoint) waitsForPeer(o *op) bool { return o.packet != nil || e.arrived < o.sent }

// runOps ends the operations whose turn has come and returns their number. A
// failed access to remote memory ends the endpoint.
func (e *endpoint) runOps() int {
	n := 0
	for e.ops.head != nil && e.failed == nil {
		o := e.ops.head
		e.home.net.mu.Lock()
		waits := e.waitsForPeer(o)
		e.home.net.mu.Unlock()
		if waits || o.due > e.home.round {
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

// flushed reports whether a flush has nothing to wait for.
func (e *endpoint) flushed(flags uct.FlushFlags) bool {
	if e.ops.head != nil {
		return false
	}
	e.home.net.mu.Lock()
	defer e.home.net.mu.Unlock()
	return flags&uct.FlushRemote == 0 || e.arrived == e.sent
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
	if flags&uct.FlushRemote != 0 {
		e.home.net.mu.Lock()
		o.sent = e.sent
		e.home.net.mu.Unlock()
	}
	e.tapAccess(o, true, flags&uct.FlushRemote != 0)
	e.push(o, 0)
	return ucs.InProgress
}
