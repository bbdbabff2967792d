//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// Send takes the message in a slot, which belongs to the endpoint until Done, and returns the
// message's header. The caller has to post the message now. large is the result of [Iface.Large]
// for the packet; ask requests an acknowledgement. ok is false if there is no room now: Port.Room
// reports when there is.
func (e *Endpoint) Send(slot int32, id uint8, large, ask bool) (h wire.Header, ok bool) {
	if !e.CanSend() {
		e.state |= blocked
		return 0, false
	}
	h = wire.AMHeader(e.dest, id, e.psn, e.got)
	f := nodeMessage
	if large {
		f |= nodeLarge
	}
	if ask || e.ask() {
		h |= wire.FlagAckReq
		f |= nodeAsked
	}
	e.owed &^= oweAck | oweProbe
	e.push(slot, id, f)
	return h, true
}

// WantRoom makes the endpoint call Port.Room when it has room, as a refused message does.
func (e *Endpoint) WantRoom() { e.state |= blocked }

// Check sends a keepalive, unless packets are in flight that serve the same purpose: the endpoint
// fails if the peer is dead.
func (e *Endpoint) Check() {
	if e.CanSend() && e.Idle() {
		e.owe(oweKeepalive)
	}
}

// Flush reports whether the peer has received all packets. If not, slot, which holds no message, is
// given back by Done when the peer has received all packets that were sent before.
func (e *Endpoint) Flush(slot int32) bool {
	at := e.psn - 1
	switch {
	case e.is(failed | gone):
		return true
	case e.owed&oweCREQ != 0:
		at++ // the CREQ will have this number
	case e.Idle():
		return true
	case e.it.nodes.at(e.last).flags&nodeAsked == 0 && e.is(connected):
		e.it.nodes.at(e.last).flags |= nodeAsked
		e.owe(oweProbe)
	}
	e.mark(slot, at)
	return false
}
