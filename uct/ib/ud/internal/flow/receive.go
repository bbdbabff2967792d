//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// maxAhead is how far a peer's numbers can be beyond the last number received: the whole window,
// and one more for a packet that uses no number and carries the next one.
const maxAhead = MaxWindow + 1

// From is the source of a packet, as reported by the device.
type From struct {
	QPN  uint32   // of the sending queue pair, 0 if that is not known
	GID  [16]byte // of the sending port
	Seen bool     // GID is known
}

// Receive handles a packet, which begins with its Header. If e is not nil, the packet was the next
// active message from e's peer, with this id and this data, a slice of pkt. e may be closed, or
// made by the peer.
//
// The order of the checks, and their effects, are those of uct_ud_ep_process_rx of
// src/uct/ib/ud/base/ud_ep.c, except that here a packet that cannot be the peer's has no effect.
func (it *Iface) Receive(pkt []byte, from *From) (e *Endpoint, id uint8, data []byte) {
	c := &it.Counters
	if len(pkt) < wire.HeaderLen {
		c.Short++
		return nil, 0, nil
	}
	h := wire.Load(pkt)
	if h.Dest() == wire.NullID {
		it.request(pkt, h, from.QPN)
		return nil, 0, nil
	}
	e = it.table.find(h.Dest())
	switch {
	case e == nil:
		c.Unknown++
		return nil, 0, nil
	case e.qpn != from.QPN && from.QPN != 0 && e.qpn != 0, from.Seen && e.gid != from.GID && e.gid != [16]byte{}:
		c.WrongSource++
		return nil, 0, nil
	case e.state&(connected|failed) != connected:
		e.unconnected(pkt, h)
		return nil, 0, nil
	}
	kind := h.Kind(len(pkt))
	ahead := h.PSN().Since(e.got)
	news := h.Ack().After(e.acked)
	switch {
	case kind == wire.KindBad:
		c.Malformed++
		return nil, 0, nil
	case news && !h.Ack().Before(e.psn):
		c.WrongAck++
		return nil, 0, nil
	case ahead > maxAhead:
		c.WrongNumber++
		return nil, 0, nil
	}
	e.lastReceived = it.now
	if news {
		e.acknowledge(h.Ack())
		e.settle()
		if e.state&(connected|failed|gone) != connected {
			return nil, 0, nil // a callback has closed the endpoint
		}
	}
	if e.state&(closed|pairwise) == closed|pairwise {
		e.receiveClosed(h, kind, ahead)
		return nil, 0, nil
	}
	if h.AckReq() {
		e.owe(oweAck)
	}
	if e.is(halted) && ahead >= 1 && !e.takes(kind, ahead) {
		return nil, 0, nil
	}
	if ahead > 1 && !e.is(halted) && (kind != wire.KindNack || e.nackedFrom != e.got || it.now-e.nackedAt >= it.tick) {
		// A NACK that shows a gap on this side is answered by a NACK only once. When both sides
		// miss packets, each NACK would otherwise cause the next (as it does in C).
		e.owe(oweNack)
	}
	if kind == wire.KindAM && ahead == 1 {
		if it.Taking != TakeAll && (it.Taking == TakeNone || e.is(halted)) {
			c.Halted++
			return nil, 0, nil
		}
		e.got++
		c.Delivered++
		return e, h.AMID(), pkt[wire.HeaderLen:]
	}
	e.other(pkt, h, kind, ahead)
	return nil, 0, nil
}

// other handles a packet that is no message, or not the next one.
func (e *Endpoint) other(pkt []byte, h wire.Header, kind wire.Kind, ahead int) {
	c := &e.it.Counters
	switch {
	case kind == wire.KindNack:
		e.nacked()
	case kind == wire.KindAck:
		c.GotAcks++
		if h&(wire.FlagEnd|wire.FlagRefuse) != 0 && ahead == 1 && !h.Ack().Before(e.acked) {
			e.peerEnded(h&wire.FlagRefuse != 0)
		}
	case ahead < 1:
		c.Duplicate++
	case ahead > 1:
		c.Ahead++
	case kind == wire.KindCtl:
		e.reply(pkt)
	case kind == wire.KindPut:
		// C writes the data to whatever address the packet names. This library offers no
		// memory for that: it accepts only puts without data, which peers send as keepalives.
		if _, data, err := wire.ParsePut(pkt); err != nil {
			c.Malformed++
		} else if len(data) != 0 {
			c.Puts++
		} else {
			e.got++
		}
	}
}

// Halt stops the endpoint from taking messages, for lack of memory. If the peer asks, an
// acknowledgement reports what has arrived; the peer keeps the rest. The peer would declare this
// side dead if nothing were acknowledged for the peer's whole timeout, so one message is taken for
// each sixth of this side's timeout.
func (e *Endpoint) Halt() {
	e.state |= halted
	e.took = e.it.now
}

// Resume ends a Halt. A NACK makes the peer send again.
func (e *Endpoint) Resume() {
	if e.is(halted) {
		e.state &^= halted
		if e.is(connected) {
			e.owe(oweNack)
		}
	}
}

// takes reports whether a halted endpoint handles a packet whose number was not received yet.
func (e *Endpoint) takes(kind wire.Kind, ahead int) bool {
	switch {
	case kind == wire.KindNack || kind == wire.KindAck && ahead == 1:
		return true
	case ahead == 1 && e.it.now-e.took >= e.it.timeout/6:
		e.took = e.it.now
		return true
	}
	e.it.Counters.Halted++
	return false
}

// receiveClosed handles a packet for a closed endpoint that is connected by id. It acknowledges what the
// endpoint has received, so that the peer stops retransmitting. New messages are dropped without a
// reply; C does not reply at all.
func (e *Endpoint) receiveClosed(h wire.Header, kind wire.Kind, ahead int) {
	switch {
	case kind == wire.KindNack:
		e.nacked()
	case kind == wire.KindAck && h&(wire.FlagEnd|wire.FlagRefuse) != 0:
		if ahead == 1 && !h.Ack().Before(e.acked) {
			e.peerEnded(h&wire.FlagRefuse != 0)
		}
	case ahead < 1 || kind == wire.KindAck && ahead == 1:
		if h.AckReq() {
			e.owe(oweAck)
		}
	default:
		e.it.Counters.Closed++
	}
}
