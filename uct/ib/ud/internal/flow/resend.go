//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// Retransmission. A receiver drops all packets after a missing one. So the sender retransmits all
// packets from the first one that is not acknowledged to the last one in flight when the loss is
// detected. The retransmission proceeds as far as the halved window allows, and further as
// acknowledgements open the window. It ends when the acknowledgements have passed the last packet.
//
// A loss is detected by a NACK or by silence. Only small packets are retransmitted to a silent
// peer, so that a slow peer is not flooded. The request for an acknowledgement in these packets
// makes the peer report what it misses.

// repeat begins a retransmission, with the first packet that is not acknowledged.
func (e *Endpoint) repeat() {
	e.re, e.reMax = e.acked+1, e.psn-1
	e.pos = e.first
	e.owe(oweResend)
}

// repeating reports whether some packets are still to be retransmitted.
func (e *Endpoint) repeating() bool { return !e.re.After(e.reMax) }

// resume continues the retransmission after an acknowledgement, whose nodes are not released yet.
func (e *Endpoint) resume() {
	switch {
	case !e.repeating():
	case e.acked.Before(e.reMax):
		if !e.re.After(e.acked) {
			e.re = e.acked + 1
			e.pos = e.first
		}
		for e.pos != none && e.it.nodes.at(e.pos).psn.Before(e.re) {
			e.pos = e.it.nodes.at(e.pos).next
		}
		e.owe(oweResend)
	default:
		e.re = e.reMax + 1
		e.pos = none
		e.owed &^= oweResend
	}
}

// nacked handles a NACK: the peer misses the packet after its acknowledgement. The peer may send a
// NACK for each packet that it drops, all with the same number. Only the first of these begins a
// retransmission, and then one for each tick, since the retransmission may be lost too.
func (e *Endpoint) nacked() {
	it := e.it
	it.Counters.GotNacks++
	if e.acked == e.psn-1 {
		return
	}
	e.state |= lively
	e.soon()
	if e.repeating() && e.re == e.acked+1 {
		e.owe(oweResend) // about to be retransmitted, or too large for that without a NACK
		return
	}
	if e.nackAt == e.acked && it.now-e.resent < it.tick {
		return
	}
	e.nackAt = e.acked
	it.Counters.NackLosses++
	e.shrink()
	e.repeat()
}

// lost begins a retransmission after a timeout.
func (e *Endpoint) lost() {
	e.it.Counters.Timeouts++
	e.state &^= lively
	e.nackAt = e.acked
	e.shrink()
	e.repeat()
}

// resend retransmits the next packet. It reports whether the queue had room.
func (e *Endpoint) resend() bool {
	it := e.it
	for e.pos != none && it.nodes.at(e.pos).flags&nodeKind == nodeMark {
		e.pos = it.nodes.at(e.pos).next
	}
	if !e.repeating() || e.pos == none {
		e.owed &^= oweResend
		return true
	}
	n := it.nodes.at(e.pos)
	if !n.psn.Before(e.max) || n.flags&nodeLarge != 0 && !e.is(lively) {
		e.owed &^= oweResend // until the next acknowledgement
		return true
	}
	ask := n.psn == e.acked+1 || n.psn%resendsPerAck == 0 || n.psn == e.reMax || n.psn+1 == e.max
	if !e.again(n, ask) {
		return false
	}
	it.Counters.Resent++
	e.resent = it.now
	e.re = n.psn + 1
	e.pos = n.next
	if n.psn == e.reMax {
		e.pos = none
		e.owed &^= oweResend
	}
	return true
}

// again posts the packet of a node, which was posted before.
func (e *Endpoint) again(n *node, ask bool) bool {
	switch n.flags & nodeKind {
	case nodeCREQ:
		return e.postCREQ(n.psn, ask)
	case nodeCREP:
		return e.postCREP(n.psn, ask)
	case nodeKeepalive:
		return e.postKeepalive(n.psn, ask)
	}
	return e.it.port.Repost(e, n.slot, wire.AMHeader(e.dest, n.am, n.psn, e.got).WithAck(e.got, ask))
}
