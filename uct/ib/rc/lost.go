//go:build linux

package rc

import "github.com/ucx-go/ucx/uct/ib/verbs"

// A peer that has closed its end while a grant for it was on its way, or a write that
// asks whether the last messages have arrived, has lost nothing, nor have we: what the device
// says of such a request is that all before it was acknowledged. So nobody is told of a
// failure. A connection is not made to last longer than both sides want it; who uses the
// endpoint again, or asks by a Check whether the peer is there, is told then.

// ringNothing is ring for a request that carries nothing of anybody's.
func (e *endpoint) ringNothing(p *verbs.Post, f verbs.SendFlags) error {
	was := e.matters
	err := e.ring(p, f)
	e.matters = was
	return err
}

// loses reports whether nothing of anybody's is lost with the request of a count, and those
// behind it.
func (e *endpoint) loses(count uint32) bool {
	return int32(e.matters-count) < 0 && e.pending.Empty()
}

// lose is told that a request has failed with which nothing is lost. The places of it and of
// those before come back; each of those behind is told of as well.
func (e *endpoint) lose(s verbs.WCStatus, count uint32) {
	if e.silent == nil {
		e.silent = sendError(e, s)
		e.room = 0
		e.iface.grants.Remove(&e.due)
		e.iface.tails.Remove(&e.tailNode)
		if e.closed {
			e.fail(e.silent) // it lingers for a peer that is gone; its owner is told nothing
		}
	}
	e.iface.credits += int(count - e.done)
	e.done = count
	e.completed(count)
}

// lost reports whether nothing that is posted would arrive, whoever knows of it.
func (e *endpoint) lost() bool { return e.failed != nil || e.silent != nil }

// ended reports whether the endpoint takes nothing any more; who asks for something is told.
func (e *endpoint) ended() bool {
	if e.silent != nil {
		e.fail(e.silent)
	}
	return e.failed != nil
}
