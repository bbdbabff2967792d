//go:build linux

package rc

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Over a reliable connection the peer executes requests in order, and acknowledges each when it
// is done. Only the data of reads and the results of atomics may come back after later writes.

// Fence implements uct.Endpoint.
func (e *endpoint) Fence() error {
	if e.failed != nil {
		return e.failed
	}
	e.fenced = !e.iface.noFence
	e.fencedPut = e.fenced
	return nil
}

// Flush implements uct.Endpoint. It waits for the completion of the last request. If that request
// asks for no completion, it waits for the completion of an empty write posted after it. An
// acknowledged request has taken effect at the peer, so a remote flush does the same. If the empty
// write itself fails, everything to be flushed had been acknowledged before the peer went away, and
// the flush succeeds.
func (e *endpoint) Flush(flags uct.FlushFlags, c *uct.Completion) error {
	switch {
	case flags&uct.FlushCancel != 0:
		e.cancel()
		return nil
	case e.failed != nil:
		return e.failed
	case e.silent != nil:
		return nil // every request that carries data has been acknowledged
	case e.pending.Blocks():
		return ucs.ErrNoResource
	case !e.awaits(e.matters):
		return nil // only internal requests can be in flight; they need no flush, and may never complete
	case e.unsignaled == 0:
		e.waitForLast(c)
		return ucs.InProgress
	}
	err := e.confirm(c)
	if err == ucs.InProgress && c != nil {
		e.ops.tail.marker = true
	}
	return err
}

// Check implements uct.Endpoint. Only requests that are not acknowledged reveal that a peer is
// gone. If no request in flight is known to report its completion, an empty write is posted.
func (e *endpoint) Check(c *uct.Completion) error {
	if !e.iface.endless {
		return e.check(c)
	}
	if !e.checkOverdue() {
		return e.failed
	}
	err := e.check(c)
	e.look()
	return err
}

func (e *endpoint) check(c *uct.Completion) error {
	switch {
	case e.ended():
		return e.failed
	case !e.connected:
		return nil
	case e.outstanding() > 0 && (e.unsignaled == 0 || e.room <= 0 || !e.mayTake()):
		// Either the last request reports its completion, or the endpoint has no room for another
		// request. In the second case one of those in flight reports its completion, or a request
		// posted when there is room again will. From now on a failure of the last request counts,
		// even if that request is an internal one.
		e.matters = e.posted
		if c == nil || e.unsignaled > 0 {
			return nil
		}
		e.waitForLast(c)
		return ucs.InProgress
	}
	err := e.confirm(c)
	if err == ucs.InProgress {
		e.matters = e.posted
	}
	return err
}

// waitForLast arranges for c to be notified when the last request completes. That request must be
// one that asks for a completion.
func (e *endpoint) waitForLast(c *uct.Completion) {
	if c != nil {
		e.hold(noPool, 0, c)
	}
}

// confirm posts an empty write to address 0 with key 0, which every peer accepts. When the
// write completes, everything that was posted before has completed.
func (e *endpoint) confirm(c *uct.Completion) error {
	if err := e.admitAny(); err != nil {
		return err
	}
	f := e.flags(true)
	p := e.qp.Begin()
	p.Write(e.id(), f, 0, 0)
	if err := e.ringInternal(p, f); err != nil {
		return err
	}
	e.waitForLast(c)
	return ucs.InProgress
}
