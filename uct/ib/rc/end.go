//go:build linux

package rc

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Over implements kit.Failing. What the peer has sent is delivered before its failure is
// reported.
func (e *endpoint) Over(err error) (userData any, report bool) {
	e.deliverAllDeferred()
	e.destroy(err)
	return e.userData, !e.closed
}

// cancel ends the endpoint and its operations in flight. No failure is reported.
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

// destroy destroys the queue pair, after which the device does nothing more for it. Operations
// in flight then end with err. What the device has received, and so acknowledged to the peer,
// is still delivered.
func (e *endpoint) destroy(err error) {
	if e.qp == nil {
		return
	}
	i, qp := e.iface, e.qp
	e.qp = nil
	i.draining.Remove(&e.draining)
	if e.connected {
		// This returns the receive buffers that the queue pair has taken from the shared
		// receive queue.
		qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
	}
	qp.Close() // an error means that the device is gone, and the queue pair with it
	i.eps[e.index] = nil
	i.retire(e)
	e.ResumeSource()
	e.endOps(err)
}
