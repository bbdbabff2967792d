//go:build linux

package rc

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

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
	i.retire(e)
	e.ResumeSource()
	e.endOps(err)
}
