//go:build linux

package flow

// owed is the set of control packets that an endpoint has to send, as bits. An endpoint that owes
// packets is in Iface.ready, and Dispatch sends the packets: CREQ and CREP first, then
// retransmitted packets, then a keepalive, then packets of 8 bytes for the rest
// (uct_ud_ep_do_pending_ctl of ud_ep.c).
type owed uint8

const (
	oweCREQ owed = 1 << iota
	oweCREP
	oweResend
	oweAck   // an acknowledgement, for which the peer has asked
	oweProbe // a request for an acknowledgement
	oweNack  // a NACK, because a packet is missing
	oweKeepalive
	oweEnd // the notice that the endpoint is closed

	oweFirst = oweCREQ | oweCREP | oweResend // packets that go before new messages
	oweTell  = oweAck | oweProbe | oweNack | oweEnd
)

func (e *Endpoint) owe(o owed) {
	e.owed |= o
	e.it.ready.push(e, linkReady)
}

// disown drops the owed packets.
func (e *Endpoint) disown() {
	e.owed = 0
	e.it.ready.drop(e, linkReady)
}

// Owed reports whether packets wait for Dispatch.
func (it *Iface) Owed() bool { return it.ready.n != 0 }
