//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// maxAhead is how far beyond what was received a peer's numbers can be: all of its
// window, and the next number of a packet that has none of its own.
const maxAhead = MaxWindow + 1

// From is where a packet has come from, as the device says it.
type From struct {
	QPN  uint32   // of the queue pair, 0 if that is not known
	GID  [16]byte // of the port
	Seen bool     // GID is there
}

// Receive takes a packet, from its Header on. If e is not nil, it was the next active
// message from e's peer, with this id and these data, a slice of pkt; e may be closed,
// or made by the peer.
//
// What is looked at first, and what comes of it, is as in uct_ud_ep_process_rx of
// src/uct/ib/ud/base/ud_ep.c; but here nothing comes of a packet that cannot be the
// peer's.
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
	e.heard = it.now
	if news {
		e.acknowledge(h.Ack())
		e.settle()
		if e.state&(connected|failed|gone) != connected {
			return nil, 0, nil // by who was told of it
		}
	}
	if e.state&(closed|pairwise) == closed|pairwise {
		e.repel(h, kind, ahead)
		return nil, 0, nil
	}
	if h.AckReq() {
		e.owe(oweAck)
	}
	if e.is(halted) && ahead >= 1 && !e.takes(kind, ahead) {
		return nil, 0, nil
	}
	if ahead > 1 && !e.is(halted) && (kind != wire.KindNack || e.told != e.got || it.now-e.toldAt >= it.tick) {
		// A NACK that tells us of something missing is answered by one, once. When both
		// sides miss something, each NACK would be the cause of the next (and is, in C).
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

// other takes what is no message, or not the next one.
func (e *Endpoint) other(pkt []byte, h wire.Header, kind wire.Kind, ahead int) {
	c := &e.it.Counters
	switch {
	case kind == wire.KindNack:
		e.nacked()
	case kind == wire.KindAck:
		c.GotAcks++
		if h&(wire.FlagEnd|wire.FlagRefuse) != 0 && ahead == 1 && !h.Ack().Before(e.acked) {
			e.farewell(h&wire.FlagRefuse != 0)
		}
	case ahead < 1:
		c.Duplicate++
	case ahead > 1:
		c.Ahead++
	case kind == wire.KindCtl:
		e.reply(pkt)
	case kind == wire.KindPut:
		// C writes data to the address, whatever it is. Nobody has been offered that:
		// only puts of nothing are received, which peers send to see whether we live.
		if _, data, err := wire.ParsePut(pkt); err != nil {
			c.Malformed++
		} else if len(data) != 0 {
			c.Puts++
		} else {
			e.got++
		}
	}
}

// Halt has the endpoint take no messages, for whose memory there is no room. The peer is
// told what has arrived if it asks, and keeps the rest. As it would give us up if
// nothing arrived for all of its timeout, one message is taken each sixth of that,
// of ours.
func (e *Endpoint) Halt() {
	e.state |= halted
	e.took = e.it.now
}

// Resume ends that. The peer is told that it may go on: that it misses something.
func (e *Endpoint) Resume() {
	if e.is(halted) {
		e.state &^= halted
		if e.is(connected) {
			e.owe(oweNack)
		}
	}
}

// takes says whether a halted endpoint looks at a packet with a new number, or of somebody
// who is ahead.
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

// repel keeps a peer from repeating what a closed endpoint has received. More it does
// not take, nor say so: C is silent altogether.
func (e *Endpoint) repel(h wire.Header, kind wire.Kind, ahead int) {
	switch {
	case kind == wire.KindNack:
		e.nacked()
	case kind == wire.KindAck && h&(wire.FlagEnd|wire.FlagRefuse) != 0:
		if ahead == 1 && !h.Ack().Before(e.acked) {
			e.farewell(h&wire.FlagRefuse != 0)
		}
	case ahead < 1 || kind == wire.KindAck && ahead == 1:
		if h.AckReq() {
			e.owe(oweAck)
		}
	default:
		e.it.Counters.Closed++
	}
}
