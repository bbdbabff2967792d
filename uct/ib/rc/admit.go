//go:build linux

package rc

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/memory"
	"github.com/ucx-go/ucx/uct/kit"
)

// All endpoints of an interface share the entries of its send completion queue. A peer can hold the
// entries of its endpoint for as long as it likes, because the device retries forever if the peer
// posts no receive buffers. So half of the entries are reserved for endpoints that hold few; an
// endpoint that holds more takes none of them. Even if as many peers do not receive as the
// transport is to scale to (MAX_NUM_EPS), every other endpoint can proceed, though more slowly.
//
// An endpoint that is refused an entry has a signaled request in flight, that is one that asks
// for a completion. When that request completes, the endpoint may try again. An endpoint
// without a signaled request may take a reserved entry, and the request that it then posts is
// signaled.

// hasSignaled reports whether a signaled request is in flight.
func (e *endpoint) hasSignaled() bool { return e.outstanding() > e.unsignaled }

// mayTake reports whether the endpoint may take a free entry of the send completion queue.
func (e *endpoint) mayTake() bool {
	i, has := e.iface, e.outstanding()
	return i.credits > i.lowCredits || i.credits > 0 && (has < i.few || !e.hasSignaled())
}

// take takes a buffer from a pool. Buffers are shared like entries of the completion queue: an
// endpoint with a signaled request in flight takes none of the second half of all available
// buffers.
func (e *endpoint) take(p *memory.SendPool) (slot int32, ok bool) {
	if p.Scarce() && e.hasSignaled() && !p.Grow() {
		return 0, false
	}
	return p.Take()
}

// growForWaiting allocates more buffers if requests wait and more than half of all available
// buffers are in use, because Room then reports an endpoint with a signaled request as full.
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

// admit checks whether an operation may be posted.
func (e *endpoint) admit() error {
	if e.room > 0 && e.iface.credits > e.iface.lowCredits && e.iface.grants.Len() == 0 && e.pending.Empty() {
		return nil // a failed endpoint has no room
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

// admitAny is admit for requests that need not wait behind pending ones. Flow control grants that
// are due are sent first.
func (e *endpoint) admitAny() error {
	if !e.ended() {
		e.iface.sendGrants()
	}
	switch {
	case e.failed != nil: // perhaps by sendGrants
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
