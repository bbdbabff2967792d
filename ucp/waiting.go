package ucp

import (
	"context"
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// waiting is what a call keeps that waits.
type waiting struct {
	given  bool     // the request is somebody's, who frees it: else it is the call's
	r      *Request // that it waits for, nil if there is none
	next   *call    // waits for the same
	leaves bool     // it waits for the last endpoint to be gone
	event  bool     // it waits for anything to happen
	sends  bool     // something, which may be a reply (reply_wait.go)

	unasked  bool // whether it has to wait for a reply
	early    bool // its wait has ended before the operation
	earlyErr error

	info   TagRecvInfo
	length int // of the data of an active message

	operand, reply [8]byte // of atomic operations
}

// begin carries out the call, which waits if it returns a request in flight.
func (c *call) begin() (*Request, error) {
	r, err := c.start(c)
	if r != nil && c.sends && r.ep != nil && (r.ep.bill != nil || r.ep.pair != nil) {
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

// cancel ends the operation if it is a receive: of a request that is somebody's only if
// no message has matched it.
func (c *call) cancel() {
	if c.given {
		c.w.cancelPosted(c.r)
	} else {
		c.w.cancel(c.r)
	}
}

// cancelFor is cancel for who gives up the wait for a reason: mostly that ctx has ended. For
// another one what is somebody's is left alone, who may wait again.
func (c *call) cancelFor(ctx context.Context, reason error) {
	if reason == ctx.Err() || !c.given {
		c.cancel()
	}
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

// left reports whether no endpoint is left, those that were being closed before too.
func (c *call) left() bool { return c.w.endpoints.Len() == 0 }
