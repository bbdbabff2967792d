//go:build linux

package rc

import "github.com/ucx-go/ucx/uct/ib/verbs"

// A grant, or the empty write that confirms a tail, may fail because the peer has closed its
// end meanwhile. Then neither side has lost anything: when the device reports such a failure,
// all requests before have been acknowledged. So no failure is reported to the owner of the
// endpoint. A connection lasts only as long as both sides want it: a caller that uses the
// endpoint again, or asks by Check whether the peer is there, gets the error then.

// ringNothing is ring for an internal request, which carries no data of a caller.
func (e *endpoint) ringNothing(p *verbs.Post, f verbs.SendFlags) error {
	was := e.matters
	err := e.ring(p, f)
	e.matters = was
	return err
}

// loses reports whether nothing is lost if the request with that count and those after it fail:
// they carry no data of a caller, and no request is pending.
func (e *endpoint) loses(count uint32) bool {
	return int32(e.matters-count) < 0 && e.pending.Empty()
}

// lose handles the failure of a request with which nothing is lost. The places in the
// completion queue of that request and of those before it are released; each later request has
// a completion of its own.
func (e *endpoint) lose(s verbs.WCStatus, count uint32) {
	if e.silent == nil {
		e.silent = sendError(e, s)
		e.room = 0
		e.iface.grants.Remove(&e.due)
		e.iface.tails.Remove(&e.tailNode)
		if e.closed {
			e.fail(e.silent) // the endpoint lingers for a peer that is gone; its owner is not notified
		}
	}
	e.iface.credits += int(count - e.done)
	e.done = count
	e.completed(count)
}

// lost reports whether a request posted now would not arrive, whether the owner has been
// notified or not.
func (e *endpoint) lost() bool { return e.failed != nil || e.silent != nil }

// ended reports whether the endpoint accepts nothing any more. After a failure that was not
// reported, the endpoint now fails, since a caller asks for something.
func (e *endpoint) ended() bool {
	if e.silent != nil {
		e.fail(e.silent)
	}
	return e.failed != nil
}
