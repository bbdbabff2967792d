//go:build linux

package rc

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// stop has the endpoint accept nothing any more. A request that is being posted has ended.
func (e *endpoint) stop(err error) {
	e.failed = err
	e.room = 0
	e.iface.grants.Remove(&e.due)
	e.iface.tails.Remove(&e.dangling)
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

// Over implements kit.Failing. What the peer has sent comes before its end.
func (e *endpoint) Over(err error) (userData any, tell bool) {
	e.readUp()
	e.destroy(err)
	return e.userData, !e.closed
}

// cancel ends the endpoint and what is under way, without anybody being told of a failure.
func (e *endpoint) cancel() {
	if e.failed == nil {
		e.stop(ucs.ErrCanceled)
		e.destroy(ucs.ErrCanceled)
	}
}

// Close implements uct.Endpoint.
func (e *endpoint) Close() {
	if e.closed {
		return
	}
	e.closed = true
	e.iface.endpoints--
	if e.failed == nil {
		e.stop(ucs.ErrCanceled)
	}
	e.destroy(ucs.ErrCanceled)
}

// destroy destroys the queue pair; the device does nothing more for it then. After that
// operations that are not over end with err. What the device has received, and so told the peer
// to have arrived, is still delivered.
func (e *endpoint) destroy(err error) {
	if e.qp == nil {
		return
	}
	i, qp := e.iface, e.qp
	e.qp = nil
	i.lingering.Remove(&e.lingers)
	if e.connected {
		// What the queue pair has taken of the queue of receives it gives back so.
		qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
	}
	qp.Close() // of a device that is gone nothing is left
	i.eps[e.index] = nil
	i.bury(e)
	e.ResumeSource()
	e.endOps(err)
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
		e.fail(fmt.Errorf("rc: receiving from %v: %v: %w", &e.device, s, statusOf(s)))
	}
}

//go:noinline
func sendError(e *endpoint, s verbs.WCStatus) error {
	return fmt.Errorf("rc: sending to %v: %v: %w", &e.device, s, statusOf(s))
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
	errNoBytes = fmt.Errorf("rc: a message without a byte: %w", ucs.ErrMessageTruncated)
	errQueue   = fmt.Errorf("rc: the send queue is full though it should not be: %w", ucs.ErrIO)
)
