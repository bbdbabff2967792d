package ucp

import (
	"context"
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// waiting is what a call keeps that waits.
type waiting struct {
	given  bool // the request is somebody's, who frees it: else it is the call's
	use    memoryUse
	bound  bool     // its context has ended, and it waits for the end of the operation
	r      *Request // that it waits for, nil if there is none
	next   *call    // waits for the same
	leaves bool     // it waits for the last endpoint to be gone
	event  bool     // it waits for anything to happen

	unasked  bool // whether it has to wait for a reply
	early    bool // its wait has ended before the operation
	earlyErr error

	info   TagRecvInfo
	length int // of the data of an active message

	operand, reply [8]byte // of atomic operations
}

// memoryUse is what an operation does with memory of the caller's.
type memoryUse uint8

const (
	memoryUnused  memoryUse = iota
	memoryOwn               // the call has memory of its own for it: atomic operations
	memoryRead              // sends, puts
	memoryWritten           // receives, gets
)

// begin carries out the call, which waits if it returns a request in flight. One that sends
// may be a reply (replies.go).
func (c *call) begin() (*Request, error) {
	r, err := c.start(c)
	if r != nil && c.use == memoryRead && r.ep != nil && (r.ep.bill != nil || r.ep.pair != nil) {
		if c.w.multi {
			r = c.w.replies.books.waitsFor(c, r)
		} else {
			c.unasked = true
		}
	}
	return r, err
}

// mayGo asks, after a round of progress, whether the call need wait.
func (c *call) mayGo() {
	c.unasked = false
	c.early = c.w.replies.books.waitsFor(c, c.r) == nil
}

// cancel ends the operation if nothing is lost by that. A request that is somebody's is
// canceled only as a receive that no message has matched.
func (c *call) cancel() {
	switch r := c.r; {
	case c.given:
		c.w.cancelPosted(r)
	case c.use != memoryUnused && r.ep != nil && r.list == &r.ep.waiting: // it has not begun
		r.abort(ucs.ErrCanceled)
	case r.is(kindClose):
		r.ep.giveUp()
	default:
		c.w.cancel(r)
	}
}

// desert ends the operation of a call that does not return, but panics with what a callback
// has panicked with: a receive must not take a message for nobody.
func (c *call) desert() {
	if c.r != nil && !c.given && !c.early && !c.r.Done() && !c.r.is(kindClose) {
		c.cancel()
	}
}

// cancelFor is cancel for who gives up the wait for a reason: mostly that ctx has ended. For
// another one what is somebody's is left alone, who may wait again.
func (c *call) cancelFor(ctx context.Context, reason error) {
	if reason == ctx.Err() || !c.given {
		c.cancel()
	}
}

// outlive decides about an operation that goes on when its wait has ended for a reason. It
// reports whether the call has to wait for the end all the same, as memory of the caller's is
// written until then, and otherwise returns the error of the call.
func (c *call) outlive(reason error) (stay bool, err error) {
	switch {
	case c.given || c.use <= memoryOwn || c.use == memoryRead && c.r.ownData():
		return false, reason
	case c.use == memoryRead:
		return false, fmt.Errorf("ucp: the operation goes on, and its buffer is in use until the endpoint is closed: %w: %w", ucs.InProgress, reason)
	}
	return true, nil
}

// canceled is the error of an operation that has ended with err when its wait had.
func canceled(ctx context.Context, reason, err error) error {
	switch {
	case err != ucs.ErrCanceled:
		return err
	case reason == ctx.Err():
		return fmt.Errorf("ucp: %w: %w", ucs.ErrCanceled, context.Cause(ctx))
	}
	return reason
}

// waitedFor adds to the deadline that has ended a wait what the operation, which goes on,
// waits for, where that is an answer that its endpoint has never had. A peer in shared
// memory that has no room for another endpoint cannot give any.
func (c *call) waitedFor(reason error) error {
	if reason != context.DeadlineExceeded || c.r == nil || c.r.Done() || c.r.ep == nil {
		return reason
	}
	ep := c.r.ep
	if ep.state&epRequested == 0 || ep.remoteID != 0 || len(ep.lanes) == 0 {
		return reason
	}
	return ep.nameIn(fmt.Errorf("the peer has not answered the wireup request over %s: its worker is not progressed, or refuses the request: %w",
		ep.laneName(int(ep.cfg.lanes.wireup)), reason))
}

// instead puts what was said of the reason in the place of the reason, in the error of a
// wait that has ended by it.
func instead(err, reason, said error) error {
	switch {
	case err == nil || said == reason || !errors.Is(err, reason):
		return err
	case errors.Is(err, ucs.ErrCanceled):
		return fmt.Errorf("%w: %w", ucs.ErrCanceled, said)
	case err == reason:
		return said
	}
	return err
}

// left reports whether no endpoint is left, those that were being closed before too.
func (c *call) left() bool { return c.w.endpoints.Len() == 0 }
