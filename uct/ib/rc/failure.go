//go:build linux

package rc

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// How endpoints fail. Here they only come to accept nothing any more, which whoever posts or
// receives may find at any place; Progress has them end (end.go).

// stop has the endpoint accept nothing any more. A request that is being posted has ended.
func (e *endpoint) stop(err error) {
	e.failed = err
	e.room = 0
	e.iface.grants.Remove(&e.due)
	e.iface.tails.Remove(&e.tailNode)
	e.iface.Waiting.Leave(&e.pending)
}

// fail ends the endpoint, once. Progress tells of it, and does the rest.
func (e *endpoint) fail(err error) {
	if e.failed != nil {
		return
	}
	e.stop(err)
	e.iface.Failures.Add(&e.iface.Reporter, e, err)
}

// sendFailed is told how a request has ended, if not well.
func (e *endpoint) sendFailed(s verbs.WCStatus) {
	if e.failed == nil {
		e.fail(sendError(e, s))
	}
}

// receiveFailed is told how a receive has ended, if not well.
func (e *endpoint) receiveFailed(s verbs.WCStatus) {
	if e.failed == nil && s != verbs.WCWRFlushErr {
		e.fail(completionError("receiving from", e, s))
	}
}

//go:noinline
func sendError(e *endpoint, s verbs.WCStatus) error { return completionError("sending to", e, s) }

// completionError tells in the words of the device what a status of UCX stands for; that it
// was an input/output error says nothing beside them either.
func completionError(doing string, e *endpoint, s verbs.WCStatus) error {
	return statuserr.Errorf(statusOf(s), "rc: %s %v: %v", doing, &e.device, s)
}

// statusOf is the status of UCX that a completion's means (uct_ib_wc_to_ucs_status).
// A request that was flushed though nobody has ended the endpoint tells of a queue pair that has
// failed, for a reason that the device told elsewhere or not at all.
func statusOf(s verbs.WCStatus) ucs.Status {
	switch s {
	case verbs.WCRemAccessErr, verbs.WCRemOpErr, verbs.WCRemInvRDReqErr, verbs.WCRemInvReqErr, verbs.WCWRFlushErr:
		return ucs.ErrConnectionReset
	case verbs.WCRetryExcErr, verbs.WCRNRRetryExcErr, verbs.WCRemAbortErr:
		return ucs.ErrEndpointTimeout
	}
	return ucs.ErrIO
}

// errNoBytes and errQueue are about what no peer, and no device, in its right mind does.
var (
	errNoBytes = fmt.Errorf("rc: an empty message: %w", ucs.ErrMessageTruncated)
	errQueue   = fmt.Errorf("rc: the send queue is full though it should not be: %w", ucs.ErrIO)
)
