//go:build linux

package rc

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// How endpoints fail. A failure may be detected anywhere in a send or a receive; there the
// endpoint only stops accepting operations. Progress then ends it (end.go).

// stop makes the endpoint accept nothing any more. It is not called while a request is being
// posted.
func (e *endpoint) stop(err error) {
	e.failed = err
	e.room = 0
	e.iface.grants.Remove(&e.due)
	e.iface.tails.Remove(&e.tailNode)
	e.iface.Waiting.Leave(&e.pending)
}

// fail fails the endpoint, once. Progress reports the failure and destroys the queue pair.
func (e *endpoint) fail(err error) {
	if e.failed != nil {
		return
	}
	e.stop(err)
	e.iface.Failures.Add(&e.iface.Reporter, e, err)
}

// sendFailed handles the failure of a send request.
func (e *endpoint) sendFailed(s verbs.WCStatus) {
	if e.failed == nil {
		e.fail(sendError(e, s))
	}
}

// receiveFailed handles the failure of a receive request.
func (e *endpoint) receiveFailed(s verbs.WCStatus) {
	if e.failed == nil && s != verbs.WCWRFlushErr {
		e.fail(completionError("receiving from", e, s))
	}
}

//go:noinline
func sendError(e *endpoint, s verbs.WCStatus) error { return completionError("sending to", e, s) }

// completionError returns an error with the UCX status of s. Its text is the device's own: that
// of the UCX status, such as input/output error, would add nothing.
func completionError(doing string, e *endpoint, s verbs.WCStatus) error {
	return statuserr.Errorf(statusOf(s), "rc: %s %v: %v", doing, &e.device, s)
}

// statusOf returns the UCX status for the status of a completion (uct_ib_wc_to_ucs_status). A
// request that was flushed although this side has not ended the endpoint means that the queue pair
// has failed, for a reason that the device reported elsewhere or not at all.
func statusOf(s verbs.WCStatus) ucs.Status {
	switch s {
	case verbs.WCRemAccessErr, verbs.WCRemOpErr, verbs.WCRemInvRDReqErr, verbs.WCRemInvReqErr, verbs.WCWRFlushErr:
		return ucs.ErrConnectionReset
	case verbs.WCRetryExcErr, verbs.WCRNRRetryExcErr, verbs.WCRemAbortErr:
		return ucs.ErrEndpointTimeout
	}
	return ucs.ErrIO
}

// errNoBytes and errQueue are errors that no correct peer and no correct device causes.
var (
	errNoBytes = fmt.Errorf("rc: an empty message: %w", ucs.ErrMessageTruncated)
	errQueue   = fmt.Errorf("rc: the send queue is full although the interface has counted free entries: %w", ucs.ErrIO)
)
