package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Some transports connect an endpoint with one endpoint of the peer's (uct.Paired), and
// nothing can be sent before both know each other. Such lanes are agreed on by wireup
// messages over an auxiliary lane, which needs no connection:
//
//	REQUEST ──►   the lanes, and under the number of each the address of its end
//	              the peer chooses lanes toward that address, makes its ends, connects them
//	      ◄── REPLY   their addresses, each under the number that the lane has here
//	connects its ends
//	ACK ──►       over the lane for messages, which is one of them
//
// Operations wait for the lanes meanwhile. If both ask at once the request of the worker
// with the smaller id counts, and the other one is not answered (onWireupRequest). The
// numbers of lanes are each side's own; what pairs the ends is that the k-th of those
// at an entry of the request's address is for the k-th lane chosen toward that entry
// (ucp_wireup_match_p2p_lanes in src/ucp/wireup/wireup.c), not counting those that are
// connected already.

// joinSelf connects the lanes of an endpoint that leads to itself.
func (ep *Endpoint) joinSelf() error {
	if ep.pair == nil {
		return nil
	}
	own, err := ep.laneAddress(ep.pair.lanes, ep.pair.number)
	if err == nil {
		err = ep.join(&own, ep.pair.number, ep.where.address)
	}
	if err == nil {
		ep.paired()
	}
	return err
}

// askForPairs sends the request for lanes that are connected pairwise.
func (ep *Endpoint) askForPairs() error {
	if ep.pair == nil || ep.state&epRequested != 0 {
		return nil
	}
	return ep.requestWireup()
}

// paired is told that the lanes are connected at both ends.
func (ep *Endpoint) paired() {
	ep.pair.waits, ep.pair.kept = false, 0
	if c := ep.pair.conn; c != nil {
		c.stage = connOpen
	}
	ep.leaveAux()
	for r := ep.waiting.head; r != nil; r = r.next {
		r.lane = ep.amLane() // which may have another number now
	}
	ep.resolveKeys()
	ep.obtain(needLanes)
}

// leaveAux closes the auxiliary lane, as the others carry everything now. What waits for it
// goes over that for messages: of two endpoints of one worker each answers the other, and may
// have its own answer before it could send that.
func (ep *Endpoint) leaveAux() {
	ep.auxLane(auxNumber).PendingPurge(func(p *uct.Pending) {
		if h, ok := p.Owner.(*hooks); ok {
			r := (*Request)(h)
			r.lane = ep.amLane()
			r.state |= stateMoves
			ep.w.dispatched.push(r)
		}
	})
	ep.dropAux()
}

// answerPairs connects the lanes of an endpoint, which were chosen toward the address in a
// request, with the ends that it names, and sends our own.
func (ep *Endpoint) answerPairs(m *proto.Wireup) error {
	numbers, err := ep.match(&m.Address)
	if err != nil {
		return err
	}
	theirs := func(lane int) uint8 { return numbers[lane] }
	if err := ep.join(&m.Address, theirs, &m.Address); err != nil {
		return err
	}
	own, err := ep.laneAddress(ep.pair.lanes, theirs)
	if err != nil {
		return err
	}
	ep.pair.waits, ep.pair.looked = true, 0
	return ep.sendWireup(proto.WireupReply, m.SrcEp, own)
}

// matchedPairs is told of the request of the peer of an endpoint that waits for it. The error
// says that the lanes that it asks for cannot be had.
func (w *Worker) matchedPairs(from *source, ep *Endpoint, m *proto.Wireup) error {
	if ep.state&epRequested != 0 && m.Address.UUID > w.uuid {
		ep.identified(m.SrcEp) // and ours is answered
		return nil
	}
	ep.identified(m.SrcEp)
	var err error
	if m.Address.UUID != w.uuid { // one's own are all answered, and name the ends that there are
		ep.state &^= epRequested // nobody will answer it
		err = ep.rechoose(&m.Address, from.origin())
	}
	if err == nil {
		err = ep.answerPairs(m)
	}
	return err
}

// rechoose makes the lanes anew, toward the address in a request. Nothing was sent over
// them but a question that nobody answers. Those that are not connected pairwise are kept where
// the new choice has them, too: the peer's end of one may be its lane for wireup and keepalive,
// and would be left with an end that is closed here.
func (ep *Endpoint) rechoose(addr *proto.WorkerAddress, origin uct.Origin) error {
	ep.purgeLanes(ucs.ErrCanceled)
	made := ep.detachUnpaired()
	ep.closeLanes(false)
	ep.setRefused(nil)
	err := ep.connectBy(addr.WithoutEnds(), laneRules{ends: addr, made: made, origin: origin})
	for _, m := range made {
		if !ep.has(m.uct) {
			m.uct.Close()
		}
	}
	if err == nil && ep.pair == nil {
		err = fmt.Errorf("ucp: the peer has asked for other lanes: %w", ucs.ErrUnreachable)
	}
	return err
}

// detachUnpaired takes the lanes that are not connected pairwise away from the endpoint, the
// auxiliary one, too.
func (ep *Endpoint) detachUnpaired() (made []madeLane) {
	p := ep.pair
	if p.aux.uct != nil {
		dev, f := ep.where.address.Entry(p.auxEntry)
		aux := lane{iface: p.aux.iface, uct: p.aux.uct, remote: remoteOf(p.aux.uct)}
		made = append(made, madeLane{lane: aux, entry: idOf(f.Transport, dev.Addr, f.Addr)})
		p.aux = lane{}
	}
	paired := ep.lanes[:0]
	for k, l := range ep.lanes {
		if p.lanes&(1<<k) != 0 {
			paired = append(paired, l)
		} else {
			made = append(made, madeLane{lane: l, path: ep.cfg.chosen.Lanes[k].Path, entry: ep.where.lanes[k]})
		}
	}
	ep.lanes = paired
	return made
}

// has reports whether a transport's endpoint is one of the lanes.
func (ep *Endpoint) has(ue uct.Endpoint) bool {
	return ep.pair != nil && ep.pair.aux.uct == ue || hasLane(ep.lanes, ue)
}

// onPairReply connects the lanes with the ends in a reply.
func (ep *Endpoint) onPairReply(m *proto.Wireup) {
	p := ep.pair
	fresh := p.joined != p.lanes
	if err := ep.join(&m.Address, ep.pair.number, ep.where.address); err != nil {
		ep.fail(err)
		return
	}
	if fresh || p.conn != nil || m.Type == proto.WireupReplyReconfig {
		ep.sendWireup(proto.WireupAck, ep.remoteID, ep.w.emptyAddress())
	}
	ep.paired()
}

// onWireupAck is told that a peer has connected its ends.
func (w *Worker) onWireupAck(src *uct.Source, m *proto.Wireup) {
	ep := w.endpoints.Get(uint64(m.DstEp))
	if ep == nil || ep.pair == nil || !ep.pair.waits || w.foreign(src, ep) {
		w.stats.Dropped++
		return
	}
	ep.paired()
}
