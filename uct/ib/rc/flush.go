//go:build linux

package rc

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// What comes over a reliable connection is done in order, and acknowledged when it is
// done. Only what is read, and what atomics fetch, may come back behind later writes.

// Fence implements uct.Endpoint.
func (e *endpoint) Fence() error {
	if e.failed != nil {
		return e.failed
	}
	e.fenced = !e.iface.noFence
	e.fencedPut = e.fenced
	return nil
}

// Flush implements uct.Endpoint. It waits for the completion of the last request; if that has
// none, of an empty write behind it. To have been acknowledged is to have taken effect
// at the peer, so a remote flush is the same. If it is the write itself that fails, all that is
// to be flushed has been acknowledged, and then the peer has gone: the flush succeeds.
func (e *endpoint) Flush(flags uct.FlushFlags, c *uct.Completion) error {
	switch {
	case flags&uct.FlushCancel != 0:
		e.cancel()
		return nil
	case e.failed != nil:
		return e.failed
	case e.silent != nil:
		return nil // all has been acknowledged
	case e.pending.Blocks():
		return ucs.ErrNoResource
	case !e.awaits(e.matters):
		return nil // what is under way, if anything, is nobody's, and may be for ever
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

// Check implements uct.Checker: nothing tells of a peer that is gone but requests
// that are not acknowledged. If it is not known of any that it is under way, an empty write
// is posted.
func (e *endpoint) Check(c *uct.Completion) error {
	if !e.iface.endless {
		return e.check(c)
	}
	if !e.judge() {
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
		// The last one, or one of those that fill the queue or are all that may be, tells of
		// its end, or will when there are places again: now it matters to somebody, whatever
		// it is.
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

// waitForLast has c told when the last request is over, which asks for a completion.
func (e *endpoint) waitForLast(c *uct.Completion) {
	if c != nil {
		e.hold(noPool, 0, c)
	}
}

// confirm posts a write of nothing to nowhere, which every peer takes: when it is over what
// was posted before is.
func (e *endpoint) confirm(c *uct.Completion) error {
	if err := e.admitAny(); err != nil {
		return err
	}
	f := e.flags(true)
	p := e.qp.Begin()
	p.Write(e.id(), f, 0, 0)
	if err := e.ringNothing(p, f); err != nil {
		return err
	}
	e.waitForLast(c)
	return ucs.InProgress
}
