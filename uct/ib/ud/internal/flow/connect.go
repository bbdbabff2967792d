//go:build linux

package flow

import "github.com/ucx-go/ucx/uct/ib/ud/internal/wire"

// Connection setup. An endpoint to a peer's interface learns the id of the peer's endpoint from the
// CREP that answers its CREQ, or from a CREQ of the peer, if the peer has made the same connection
// at the same time. CREQ and CREP are numbered packets, so each may be lost, duplicated or late.
// CREQ is the first packet of the requester, CREP the next packet of the responder.
//
// An endpoint that is connected by a CREQ still has to answer with a CREP, although both sides then
// know each other's ids.

// Open makes an endpoint to an interface. The endpoint is connected already if the peer has made
// the same connection before; otherwise Port.Connected reports the connection. The error is ErrFull
// if there is no room.
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

// OpenPair makes an endpoint that ConnectPair connects. The error is ErrFull if there is no room.
func (it *Iface) OpenPair() (*Endpoint, error) {
	it.expire()
	e := it.newEndpoint()
	if e == nil {
		return nil, ErrFull
	}
	e.state |= pairwise
	return e, nil
}

// ConnectPair connects an endpoint made by OpenPair with the endpoint id at the queue pair qpn.
// Packets that arrived before were dropped, and the peer retransmits them. The error is ErrState if
// the endpoint is not one of OpenPair or cannot be connected any more.
func (e *Endpoint) ConnectPair(qpn, id uint32) error {
	if e.state&(pairwise|connected|closed|failed|gone) != pairwise {
		return ErrState
	}
	e.qpn, e.dest = qpn, id
	e.state |= connected
	e.settle()
	return nil
}

// request handles a packet without a destination id, which can only be a CREQ (uct_ud_ep_rx_creq of
// ud_ep.c).
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
		c.Duplicate++ // the timer retransmits the CREP
	default:
		c.WrongControl++
	}
}

// accept makes this side's endpoint of a connection that a peer's CREQ requests.
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
	e.state |= connected | passive | halfOpen
	e.got = psn
	e.since = it.now
	p := it.peers.get(from)
	it.peers.add(p, e)
	it.peers.charge(e, from.Addr)
	it.peers.embryos.push(e, linkAge)
	e.owe(oweCREP)
}

// meet handles the CREQ of a peer for an endpoint that is not connected yet, and whose own CREQ is
// in flight or still owed. The peer's CREQ connects the endpoint, and counts as an acknowledgement
// of this side's CREQ.
func (it *Iface) meet(e *Endpoint, q *wire.CREQ, psn wire.PSN) {
	if e.owed&oweCREQ != 0 {
		e.owed &^= oweCREQ
	}
	e.dest, e.got, e.early = q.EP, psn, 0
	e.state |= connected
	e.lastReceived = it.now
	e.owe(oweCREP)
	if e.acked.Before(it.cfg.first) && e.is(asked) {
		e.acknowledge(it.cfg.first)
	}
	it.connected(e)
}

// restart handles the CREQ of a peer that has come back as another process with the same numbers.
// Packets in flight to the old process are lost; this side's packet numbers continue.
func (it *Iface) restart(e *Endpoint, q *wire.CREQ, psn wire.PSN) {
	it.Counters.Restarts++
	e.purge(ErrReset)
	if e.state&(connected|failed|gone) != connected {
		return
	}
	e.dest, e.got = q.EP, psn
	e.lastReceived = it.now
	e.owe(oweCREP)
}

// unconnected handles a packet for an endpoint that does not know its peer's id yet. Only a CREP
// connects the endpoint.
func (e *Endpoint) unconnected(pkt []byte, h wire.Header) {
	it := e.it
	c := &it.Counters
	if e.state&(asked|pairwise|failed) != asked {
		c.Unconnected++
		return
	}
	if h.Kind(len(pkt)) != wire.KindCtl {
		// A message may overtake the CREP that the peer has sent before the message.
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
	e.lastReceived = it.now
	if h.AckReq() {
		e.owe(oweAck)
	}
	if h.Ack().After(e.acked) {
		e.acknowledge(h.Ack())
	}
	it.connected(e)
}

// connected reports the connection to the port, unless the endpoint is closed, failed or gone.
func (it *Iface) connected(e *Endpoint) {
	if e.state&(closed|failed|gone) == 0 {
		it.port.Connected(e)
	}
	e.settle()
}

// reply handles a CREP on an endpoint that a CREQ has connected already. The CREP must name the same
// id.
func (e *Endpoint) reply(pkt []byte) {
	q, err := wire.ParseCREP(pkt)
	if err != nil || q.EP != e.dest {
		e.it.Counters.WrongControl++
		return
	}
	e.got++
}
