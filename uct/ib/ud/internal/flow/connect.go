//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// An endpoint to a peer's interface knows the id of its other end when a CREP brings it,
// in answer to its CREQ; or a CREQ of the peer's does, if that has made the same
// connection at the same time. Both have numbers, so that each can be lost, doubled and
// late: CREQ is the first packet of who asks, CREP the next one of who answers.
//
// Whoever is connected by a CREQ still has to answer by a CREP, although both know
// each other's ids then.

// Open makes an endpoint to an interface. It is connected already if the peer has made
// the same one before; otherwise Port.Connected tells.
func (it *Iface) Open(to Peer) (*Endpoint, error) {
	it.expire()
	p := it.peers.get(to)
	for e := it.peers.find(p, p.next); e != nil; e = it.peers.find(p, p.next) {
		p.own = true
		p.next++
		if e.is(passive) {
			it.adopt(e)
			return e, nil
		}
	}
	e := it.newEndpoint()
	if e == nil {
		it.peers.put(p)
		return nil, ErrFull
	}
	p.own = true
	e.qpn, e.path = to.QPN, to.Path
	e.connSN = p.next
	p.next++
	it.peers.add(p, e)
	e.owe(oweCREQ)
	return e, nil
}

// OpenPair makes an endpoint whose other end is told by ConnectPair.
func (it *Iface) OpenPair() (*Endpoint, error) {
	it.expire()
	e := it.newEndpoint()
	if e == nil {
		return nil, ErrFull
	}
	e.state |= pairwise
	return e, nil
}

// ConnectPair connects an endpoint made by OpenPair with the endpoint of an id at a
// queue pair. Packets that came before are not taken: the peer sends them again.
func (e *Endpoint) ConnectPair(qpn, id uint32) error {
	if e.state&(pairwise|connected|closed|failed|gone) != pairwise {
		return ErrState
	}
	e.qpn, e.dest = qpn, id
	e.state |= connected
	e.settle()
	return nil
}

// request takes a packet without destination, which only a CREQ has
// (uct_ud_ep_rx_creq of ud_ep.c).
func (it *Iface) request(pkt []byte, h wire.Header, src uint32) {
	c := &it.Counters
	if h.Kind(len(pkt)) != wire.KindCtl {
		c.Malformed++
		return
	}
	q, err := wire.ParseCREQ(pkt)
	if err != nil {
		c.Malformed++
		return
	}
	if src != 0 && q.QPN != src {
		c.WrongSource++
		return
	}
	from, ok := it.port.Resolve(q.DevAddr, q.QPN, q.Path)
	if !ok {
		c.Refused++
		return
	}
	e := it.peers.lookup(from, q.ConnSN)
	if e == nil {
		it.accept(from, &q, h.PSN())
		return
	}
	switch {
	case e.is(failed):
		c.Closed++
	case !e.is(connected):
		it.meet(e, &q, h.PSN())
	case e.dest != q.EP:
		it.restart(e, &q, h.PSN())
	case h.PSN() == e.got, h.PSN().Before(e.got):
		c.Duplicate++ // the CREP is repeated when its time comes
	default:
		c.WrongControl++
	}
}

// accept makes the other end of a peer's endpoint.
func (it *Iface) accept(from Peer, q *wire.CREQ, psn wire.PSN) {
	target, ok := it.vacancy(from.Addr)
	if !ok {
		it.Counters.Refused++
		return
	}
	e := it.newEndpoint()
	if e == nil {
		it.Counters.Refused++
		return
	}
	e.qpn, e.path, e.connSN, e.dest = q.QPN, q.Path, q.ConnSN, q.EP
	if !it.port.Accept(e, q.DevAddr) {
		it.Counters.Refused++
		it.table.remove(e)
		e.state |= gone
		return
	}
	if target != nil {
		it.Counters.Evicted++
		it.drop(target)
	}
	it.Counters.Passive++
	e.state |= connected | passive | embryo
	e.got = psn
	e.since = it.now
	p := it.peers.get(from)
	it.peers.add(p, e)
	it.peers.charge(e, from.Addr)
	it.peers.embryos.push(e, linkAge)
	e.owe(oweCREP)
}

// meet takes the CREQ of a peer that has ours to expect, or had: it says as much as an
// acknowledgement of that.
func (it *Iface) meet(e *Endpoint, q *wire.CREQ, psn wire.PSN) {
	if e.owed&oweCREQ != 0 {
		e.owed &^= oweCREQ
	}
	e.dest, e.got, e.early = q.EP, psn, 0
	e.state |= connected
	e.heard = it.now
	e.owe(oweCREP)
	if e.acked.Before(it.cfg.first) && e.is(asked) {
		e.acknowledge(it.cfg.first)
	}
	it.connected(e)
}

// restart takes the CREQ of a peer that has come back as another process with the same
// numbers. What was on its way to the old one is lost; numbers go on from here.
func (it *Iface) restart(e *Endpoint, q *wire.CREQ, psn wire.PSN) {
	it.Counters.Restarts++
	e.purge(ErrReset)
	if e.state&(connected|failed|gone) != connected {
		return
	}
	e.dest, e.got = q.EP, psn
	e.heard = it.now
	e.owe(oweCREP)
}

// unconnected takes a packet for an endpoint that does not know its peer yet: only a
// CREP says anything to it.
func (e *Endpoint) unconnected(pkt []byte, h wire.Header) {
	it := e.it
	c := &it.Counters
	if e.state&(asked|pairwise|failed) != asked {
		c.Unconnected++
		return
	}
	if h.Kind(len(pkt)) != wire.KindCtl {
		// A message may overtake the CREP. If there was one, it was sent first.
		n := h.PSN().Since(it.cfg.first) + 1
		if h.Kind(len(pkt)) == wire.KindAM && n >= 1 && n <= MinWindow+1 && (e.early == 0 || n < int(e.early)) {
			e.early = uint8(n)
		}
		c.Unconnected++
		return
	}
	q, err := wire.ParseCREP(pkt)
	if err != nil || h.Ack() != it.cfg.first {
		c.WrongControl++
		return
	}
	e.dest, e.got = q.EP, h.PSN()
	if n := h.PSN().Since(it.cfg.first) + 1; e.early != 0 && n > int(e.early) && n <= 2*(MinWindow+1) {
		e.got = it.cfg.first + wire.PSN(e.early) - 2
		e.owe(oweNack)
	}
	e.early = 0
	e.state |= connected
	e.heard = it.now
	if h.AckReq() {
		e.owe(oweAck)
	}
	if h.Ack().After(e.acked) {
		e.acknowledge(h.Ack())
	}
	it.connected(e)
}

// connected tells, unless nobody is interested any more.
func (it *Iface) connected(e *Endpoint) {
	if e.state&(closed|failed|gone) == 0 {
		it.port.Connected(e)
	}
	e.settle()
}

// reply takes a CREP on an endpoint that is connected, by a CREQ: it says the same.
func (e *Endpoint) reply(pkt []byte) {
	q, err := wire.ParseCREP(pkt)
	if err != nil || q.EP != e.dest {
		e.it.Counters.WrongControl++
		return
	}
	e.got++
}
