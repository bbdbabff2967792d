//go:build linux

package rc

import "github.com/ucx-go/ucx/uct/ib/verbs"

// A grant, or the empty write that confirms a tail, may fail because the peer has closed its
// endpoint meanwhile. Then neither side has lost anything, because all requests before the failed
// one have been acknowledged when the device reports such a failure. So no failure is reported to
// the owner of the endpoint at that time. A caller that uses the endpoint again, or asks by Check
// whether the peer is there, gets the error then.

// ringInternal is ring for an internal request, which carries no data of a caller.
func (e *endpoint) ringInternal(p *verbs.Post, f verbs.SendFlags) error {
	was := e.matters
	err := e.ring(p, f)
	e.matters = was
	return err
}

// losesNothing reports whether nothing is lost if request number count of the endpoint and those after it
// fail, because they carry no data of a caller, and no request is pending.
func (e *endpoint) losesNothing(count uint32) bool {
	return int32(e.matters-count) < 0 && e.pending.Empty()
}

// failSilently handles the failure of request number count, with which nothing is lost. It releases the
// completion queue entries of that request and of those before it; each later request has a
// completion of its own.
func (e *endpoint) failSilently(s verbs.WCStatus, count uint32) {
	if e.silent == nil {
		e.silent = sendError(e, s)
		e.room = 0
		e.iface.grants.Remove(&e.due)
		e.iface.tails.Remove(&e.tailNode)
		if e.closed {
			e.fail(e.silent) // the endpoint drains for a peer that is gone; its owner is not notified
		}
	}
	e.iface.credits += int(count - e.done)
	e.done = count
	e.completed(count)
}

// lost reports whether a request posted now would not arrive, whether the owner has been
// notified or not.
func (e *endpoint) lost() bool { return e.failed != nil || e.silent != nil }

// ended reports whether the endpoint accepts nothing any more. It is called when a caller uses the
// endpoint, so it reports a failure that was not reported before (silent).
func (e *endpoint) ended() bool {
	if e.silent != nil {
		e.fail(e.silent)
	}
	return e.failed != nil
}
