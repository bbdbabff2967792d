//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// Send takes the message in a slot, which is the endpoint's until Done, and makes its
// header. It has to be posted now. large is what [Iface.Large] says of the packet;
// ask wants to know soon that the peer has it. False means that there is no room now:
// Port.Room tells when there is.
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

// WantRoom makes the endpoint tell of room, as a refused message does.
func (e *Endpoint) WantRoom() { e.state |= blocked }

// Check makes sure that the peer is there, if nothing is on its way that does: its
// death fails the endpoint.
func (e *Endpoint) Check() {
	if e.CanSend() && e.Idle() {
		e.owe(oweKeepalive)
	}
}

// Flush reports whether the peer has received everything. If not, slot, which holds no
// message, is given back by Done when it has received what was sent before.
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
