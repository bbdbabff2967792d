package ucp

import "github.com/ucx-go/ucx/proto"

// peer is what a worker remembers about another worker. The k-th endpoint that
// one side creates toward the other is paired with the k-th of the other side:
// both number them from 0 (ucp_ep_match in src/ucp/wireup/ep_match.c).
type peer struct {
	uuid    uint64
	address *proto.WorkerAddress // as it came last
	nextSN  uint16

	// Endpoints that wait for their counterpart: created here and not yet named
	// by the peer, or opened by the peer and not yet created here.
	unmatched map[uint16]*Endpoint
}

// peerOf returns what is known about the worker of an address, and keeps that: an
// interface gets a new one when its ring is replaced.
func (w *Worker) peerOf(addr *proto.WorkerAddress) *peer {
	p := w.peers[addr.UUID]
	if p == nil {
		p = &peer{uuid: addr.UUID}
		w.peers[addr.UUID] = p
	}
	if p.address == nil || len(addr.Devices) > 0 {
		p.address = addr.Clone()
	}
	return p
}

// takeSN returns the number of the next endpoint created here. It stays at the
// last value, which matches nothing.
func (p *peer) takeSN() uint16 {
	sn := p.nextSN
	if sn != proto.ConnSNNone {
		p.nextSN++
	}
	return sn
}

// returnSN takes back the number just taken: its endpoint could not be made.
func (p *peer) returnSN(sn uint16) { p.nextSN = sn }

// adopt returns the endpoint the peer opened under this number, if any, which
// becomes the one created here.
func (p *peer) adopt(sn uint16) *Endpoint {
	ep := p.unmatched[sn]
	if ep == nil || ep.state&epUser != 0 || sn == proto.ConnSNNone {
		return nil
	}
	delete(p.unmatched, sn)
	if from := ep.uncount(); from != nil {
		ep.know(from.payer.account.Source())
	}
	return ep
}

// expect remembers an endpoint until the peer names its counterpart.
func (p *peer) expect(ep *Endpoint) {
	if ep.connSN == proto.ConnSNNone {
		return
	}
	if p.unmatched == nil {
		p.unmatched = make(map[uint16]*Endpoint)
	}
	p.unmatched[ep.connSN] = ep
}

// forget drops an endpoint that is matched or closed.
func (p *peer) forget(ep *Endpoint) {
	if p.unmatched[ep.connSN] == ep {
		delete(p.unmatched, ep.connSN)
	}
}

// releasePeer drops what is known about a peer toward which nothing was ever
// created here: strangers must not make the worker grow.
func (w *Worker) releasePeer(p *peer) {
	if p.nextSN == 0 && len(p.unmatched) == 0 && w.peers[p.uuid] == p {
		delete(w.peers, p.uuid)
	}
}
