//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

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

	oweFirst = oweCREQ | oweCREP | oweResend // before new messages
	oweTell  = oweAck | oweProbe | oweNack
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

// Dispatch posts what is owed. It reports whether that is all; otherwise the queue is
// full, and who is next will be first the next time.
func (it *Iface) Dispatch() bool {
	for it.ready.first != nil {
		e := it.ready.first
		if !e.pay() {
			it.ready.drop(e, linkReady)
			it.ready.push(e, linkReady)
			return false
		}
		it.ready.drop(e, linkReady)
		e.settle()
	}
	return true
}

// pay posts what an endpoint owes. It reports whether the queue had room.
func (e *Endpoint) pay() bool {
	for e.owed != 0 {
		switch o := e.owed; {
		case o&oweCREQ != 0:
			if !e.postCREQ(e.psn, false) {
				return false
			}
			e.owed &^= oweCREQ
			e.state |= asked
			e.push(none, 0, nodeCREQ)
		case o&oweCREP != 0:
			if !e.postCREP(e.psn, true) {
				return false
			}
			e.owed &^= oweCREP
			e.push(none, 0, nodeCREP|nodeAsked)
		case o&oweResend != 0:
			if !e.resend() {
				return false
			}
		case o&oweKeepalive != 0:
			if e.Idle() {
				if !e.postKeepalive(e.psn, e.ask()) {
					return false
				}
				e.owed &^= oweAck | oweProbe
				e.push(none, 0, nodeKeepalive)
			}
			e.owed &^= oweKeepalive
		default:
			if !e.tell() {
				return false
			}
		}
	}
	return true
}

// tell posts 8 bytes that acknowledge and ask. Their number is not used up: a peer that
// has not got that far knows what it misses (uct_ud_ep_send_ack of ud_ep.c).
func (e *Endpoint) tell() bool {
	it := e.it
	o := e.owed & oweTell
	if !e.is(connected) {
		e.owed &^= oweTell
		return true
	}
	h := wire.NewHeader(e.dest, 0, e.psn, e.got)
	solicited := false
	if o&oweProbe != 0 {
		h |= wire.FlagAckReq
		solicited = e.every >= it.poke
	}
	if o&oweNack != 0 {
		h |= wire.FlagNack
	}
	h.Store(it.buf[:])
	if !it.port.Post(e, it.buf[:wire.HeaderLen], solicited) {
		return false
	}
	switch {
	case o&oweNack != 0:
		e.told, e.toldAt = e.got, it.now
		it.Counters.Nacks++
	case o&oweProbe != 0:
		it.Counters.Probes++
	default:
		it.Counters.Acks++
	}
	e.owed &^= oweTell
	return true
}

// postCREQ posts a connection request, solicited as all that connects: the peer may
// sleep.
func (e *Endpoint) postCREQ(psn wire.PSN, ask bool) bool {
	it := e.it
	h := wire.NewHeader(wire.NullID, wire.FlagCtl, psn, e.got).WithAck(e.got, ask)
	c := wire.CREQ{QPN: it.cfg.QPN, EP: e.id, ConnSN: e.connSN, Path: e.path, Origin: it.cfg.Origin, DevAddr: it.cfg.DevAddr}
	if !it.port.Post(e, wire.AppendCREQ(it.buf[:0], h, &c), true) {
		return false
	}
	it.Counters.CREQs++
	return true
}

func (e *Endpoint) postCREP(psn wire.PSN, ask bool) bool {
	it := e.it
	h := wire.NewHeader(e.dest, wire.FlagCtl, psn, e.got).WithAck(e.got, ask)
	c := wire.CREP{EP: e.id, Origin: it.cfg.Origin}
	if !it.port.Post(e, wire.AppendCREP(it.buf[:0], h, &c), true) {
		return false
	}
	it.Counters.CREPs++
	return true
}

func (e *Endpoint) postKeepalive(psn wire.PSN, ask bool) bool {
	it := e.it
	h := wire.NewHeader(e.dest, 0, psn, e.got).WithAck(e.got, ask)
	if !it.port.Post(e, wire.AppendKeepalive(it.buf[:0], h), false) {
		return false
	}
	it.Counters.Keepalives++
	return true
}
