//go:build linux

package rc

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// The places in the queue of completions are for all endpoints of an interface, and a peer may
// hold those that its endpoint has for as long as it likes: who has no buffers posted is asked
// again for ever. So half of the places are for those who have few, and who has more takes none
// of them. Peers that do not receive, as many as the transport is to scale to, leave to each
// other endpoint what it needs to go on, if not as fast.
//
// Who is refused has a request under way that tells of its end, whereupon it is asked again. An
// endpoint without such a one may take a place, and what it posts then asks for a completion.

// hasSignaled reports whether a request is under way that tells of its end.
func (e *endpoint) hasSignaled() bool { return e.outstanding() > e.unsignaled }

// mayTake reports whether the endpoint may have one of the free places.
func (e *endpoint) mayTake() bool {
	i, has := e.iface, e.outstanding()
	return i.credits > i.lowCredits || i.credits > 0 && (has < i.few || !e.hasSignaled())
}

// take takes a buffer. Those that can be had are shared like places: who has requests under way
// that tell of their end takes none of the second half.
func (e *endpoint) take(p *ib.SendPool) (slot int32, ok bool) {
	if p.Scarce() && e.hasSignaled() && !p.Grow() {
		return 0, false
	}
	return p.Take()
}

// growForWaiting tries for more buffers if that is what requests wait for: Room lets them take none
// of the second half.
func (i *iface) growForWaiting() {
	if i.Waiting.Empty() {
		return
	}
	if i.bufs.Scarce() {
		i.bufs.Grow()
	}
	if i.hdrs.Scarce() {
		i.hdrs.Grow()
	}
}

// admit says whether an operation may be posted.
func (e *endpoint) admit() error {
	if e.room > 0 && e.iface.credits > e.iface.lowCredits && e.iface.grants.Len() == 0 && e.pending.Empty() {
		return nil // there is room only for who has not failed
	}
	return e.admitSlow()
}

//go:noinline
func (e *endpoint) admitSlow() error {
	if err := e.admitAny(); err != nil {
		return err
	}
	if e.pending.Blocks() {
		return ucs.ErrNoResource
	}
	return nil
}

// admitAny is admit for what need not wait behind requests. Grants go first.
func (e *endpoint) admitAny() error {
	if !e.ended() {
		e.iface.sendGrants()
	}
	switch {
	case e.failed != nil: // perhaps by that
		return e.failed
	case e.room <= 0 || !e.mayTake():
		return ucs.ErrNoResource
	}
	return nil
}

// Room implements kit.Sender.
func (e *endpoint) Room() kit.Room {
	i := e.iface
	switch {
	case e.failed != nil || e.room <= 0 || e.stuck:
		return kit.Full
	case i.credits <= 0 || i.reading >= i.maxReading || i.bufs.Empty() || i.hdrs.Empty():
		return kit.Exhausted
	case !e.mayTake(), (i.bufs.Scarce() || i.hdrs.Scarce()) && e.hasSignaled():
		return kit.Full
	}
	return kit.Open
}
