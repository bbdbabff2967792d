//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// A receiver drops everything behind a packet that is missing, so all of it has to be
// sent again, from the first that is not acknowledged to the last that is in flight
// when the loss is found out. This goes on as the window, halved, allows, and while
// acknowledgements open it. It ends when they have passed the last.
//
// A loss is found out by a NACK or by silence. To a peer that is silent only small
// packets are repeated, lest one that is slow be flooded; the question that goes along
// makes it say what it misses.

// repeat begins with the first packet that is not acknowledged.
func (e *Endpoint) repeat() {
	e.re, e.reMax = e.acked+1, e.psn-1
	e.pos = e.first
	e.owe(oweResend)
}

// repeating reports whether some packets are still to be repeated.
func (e *Endpoint) repeating() bool { return !e.re.After(e.reMax) }

// resume continues after an acknowledgement. The nodes that it covers are still there.
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

// nacked is told by the peer that it misses what follows its acknowledgement. Each
// packet that it drops may make it say so, all of one flight with the same number:
// only the first counts, and then one each tick, as the repetition may be lost too.
func (e *Endpoint) nacked() {
	it := e.it
	it.Counters.GotNacks++
	if e.acked == e.psn-1 {
		return
	}
	e.state |= lively
	e.soon()
	if e.repeating() && e.re == e.acked+1 {
		e.owe(oweResend) // about to be; or it was too large to be repeated unasked
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

// lost is told that the peer has been silent for too long.
func (e *Endpoint) lost() {
	e.it.Counters.Timeouts++
	e.state &^= lively
	e.nackAt = e.acked
	e.shrink()
	e.repeat()
}

// resend repeats the next packet. It reports whether the queue had room.
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

// again posts a packet that was posted before.
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
