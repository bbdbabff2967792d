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
	info   TagRecvInfo
	length int // of the data of an active message

	operand, reply [8]byte // of atomic operations
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
	return fmt.Errorf("ucp: endpoint %s: the peer has not answered the request to connect over %s: its worker is not progressed, or refuses: %w",
		ep.describe(), ep.laneName(int(ep.cfg.lanes.wireup)), reason)
}

// left reports whether no endpoint is left, those that were being closed before too.
func (c *call) left() bool { return c.w.endpoints.Len() == 0 }
