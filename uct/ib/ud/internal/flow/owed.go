//go:build linux

package flow

// owed is the control packets that an endpoint has to send, as bits. It is in the list
// of those that are ready while there are any, and Dispatch sends them: what connects
// first, then what is repeated, then one packet of 8 bytes for all the rest
// (uct_ud_ep_do_pending_ctl of ud_ep.c).
type owed uint8

const (
	oweCREQ owed = 1 << iota
	oweCREP
	oweResend
	oweAck   // the peer has asked
	oweProbe // we ask
	oweNack  // something is missing
	oweKeepalive
	oweEnd // we have closed

	oweFirst = oweCREQ | oweCREP | oweResend // before new messages
	oweTell  = oweAck | oweProbe | oweNack | oweEnd
)

func (e *Endpoint) owe(o owed) {
	e.owed |= o
	e.it.ready.push(e, linkReady)
}

// disown forgets what is owed.
func (e *Endpoint) disown() {
	e.owed = 0
	e.it.ready.drop(e, linkReady)
}

// Owed reports whether packets wait for Dispatch.
func (it *Iface) Owed() bool { return it.ready.n != 0 }
