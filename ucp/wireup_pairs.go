package ucp

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Wireup of lanes that are connected pairwise. Some transports connect an endpoint with exactly one
// endpoint of the peer's (uct.Paired). Nothing can be sent on such a lane before both ends know
// each other's address. Both sides agree on such lanes by wireup messages over an auxiliary lane,
// which needs no connection:
//
//	REQUEST ──►   the lanes, and under the number of each the address of its end
//	              the peer chooses lanes toward that address, makes its ends, connects them
//	      ◄── REPLY   their addresses, each under the number that the requester gave the lane
//	the requester connects its ends
//	ACK ──►       over the lane for messages, which is one of them
//
// Operations wait for the lanes meanwhile. If both sides ask at once, the request of the worker
// with the smaller uuid counts, and the other request is not answered (onWireupRequest). Each side
// numbers its lanes by itself. The ends are paired as follows: the k-th end at an entry of the
// request's address is for the k-th lane chosen toward that entry (ucp_wireup_match_p2p_lanes in
// src/ucp/wireup/wireup.c), not counting those that are connected already.

// joinSelf connects the lanes of an endpoint that leads to itself.
func (ws *wireupState) joinSelf(ep *Endpoint) error {
	if ep.pair == nil {
		return nil
	}
	own, err := ws.laneAddress(ep, ep.pair.lanes, ep.pair.number)
	if err == nil {
		err = ws.join(ep, &own, ep.pair.number, ep.dest.address)
	}
	if err == nil {
		ws.paired(ep)
	}
	return err
}

// askForPairs sends the request for lanes that are connected pairwise.
func (ws *wireupState) askForPairs(ep *Endpoint) error {
	if ep.pair == nil || ep.state&epRequested != 0 {
		return nil
	}
	return ws.requestWireup(ep)
}

// paired handles the event that the lanes are connected at both ends: it closes the auxiliary lane
// and starts the operations that wait for the lanes.
func (ws *wireupState) paired(ep *Endpoint) {
	ep.pair.waits, ep.pair.kept = false, 0
	if c := ep.pair.conn; c != nil {
		c.stage = connOpen
	}
	ws.closeAux(ep)
	for r := ep.waiting.head; r != nil; r = r.next {
		r.lane = ep.amLane() // the number of the lane for messages may have changed
	}
	ep.w.rma.resolveKeys(ep)
	ep.resolveNeed(needLanes)
}

// closeAux closes the auxiliary lane, because the other lanes carry everything now. Requests in its
// queue move to the lane for messages. The queue may hold a reply if an endpoint is connected with
// another of the same worker: each answers the other, and may receive its own reply before its
// reply was sent.
func (ws *wireupState) closeAux(ep *Endpoint) {
	ep.w.selection.auxLane(ep, auxNumber).PendingPurge(func(p *uct.Pending) {
		if h, ok := p.Owner.(*hooks); ok {
			r := (*Request)(h)
			r.lane = ep.amLane()
			r.state |= stateMoves
			ep.w.dispatched.push(r)
		}
	})
	ep.w.selection.dropAux(ep)
}

// answerPairs connects the lanes of an endpoint, which were chosen toward the address in a request,
// with the ends that the address names. It replies with the addresses of the ends of this side.
func (ws *wireupState) answerPairs(ep *Endpoint, m *proto.Wireup) error {
	numbers, err := ws.match(ep, &m.Address)
	if err != nil {
		return err
	}
	theirs := func(lane int) uint8 { return numbers[lane] }
	if err := ws.join(ep, &m.Address, theirs, &m.Address); err != nil {
		return err
	}
	own, err := ws.laneAddress(ep, ep.pair.lanes, theirs)
	if err != nil {
		return err
	}
	ep.pair.waits, ep.pair.looked = true, 0
	return ws.sendWireup(ep, proto.WireupReply, m.SrcEp, own)
}

// matchedPairs handles the peer's request for an endpoint that waits for its peer. It returns an
// error if the lanes that the request asks for cannot be made.
func (ws *wireupState) matchedPairs(from *source, ep *Endpoint, m *proto.Wireup) error {
	w := ws.w
	if ep.state&epRequested != 0 && m.Address.UUID > w.uuid {
		ws.idConfirmed(ep, m.SrcEp) // the peer answers the request of this worker
		return nil
	}
	ws.idConfirmed(ep, m.SrcEp)
	var err error
	if m.Address.UUID != w.uuid { // requests of this worker to itself are all answered
		ep.state &^= epRequested // the peer does not answer the request of this worker
		err = ws.rechooseLanes(ep, &m.Address, from.origin())
	}
	if err == nil {
		err = ws.answerPairs(ep, m)
	}
	return err
}

// rechooseLanes replaces the lanes by lanes chosen toward the address in a request. Nothing was
// sent over the old ones but a wireup request that the peer does not answer. Lanes that are not
// connected pairwise are kept where the new choice has them, too: such a lane may lead to an end
// that is the peer's lane for wireup and keepalive, and closing it here would leave the peer's end
// without a counterpart.
func (ws *wireupState) rechooseLanes(ep *Endpoint, addr *proto.WorkerAddress, origin uct.Origin) error {
	ep.w.ends.purgeLanes(ep, ucs.ErrCanceled)
	made := ws.detachUnpaired(ep)
	ep.w.ends.closeLanes(ep, false)
	ep.setRefused(nil)
	err := ws.connectBy(ep, addr.WithoutEnds(), laneRules{ends: addr, made: made, origin: origin})
	for _, m := range made {
		if !ws.has(ep, m.uct) {
			m.uct.Close()
		}
	}
	if err == nil && ep.pair == nil {
		err = fmt.Errorf("ucp: the peer has asked for other lanes: %w", ucs.ErrUnreachable)
	}
	return err
}

// detachUnpaired removes from the endpoint the lanes that are not connected pairwise, including the
// auxiliary lane, and returns them. The caller owns them.
func (ws *wireupState) detachUnpaired(ep *Endpoint) (made []madeLane) {
	p := ep.pair
	if p.aux.uct != nil {
		dev, f := ep.dest.address.Entry(p.auxEntry)
		aux := lane{iface: p.aux.iface, uct: p.aux.uct, remote: remoteOf(p.aux.uct)}
		made = append(made, madeLane{lane: aux, entry: idOf(f.Transport, dev.Addr, f.Addr)})
		p.aux = lane{}
	}
	paired := ep.lanes[:0]
	for k, l := range ep.lanes {
		if p.lanes&(1<<k) != 0 {
			paired = append(paired, l)
		} else {
			made = append(made, madeLane{lane: l, path: ep.cfg.chosen.Lanes[k].Path, entry: ep.dest.lanes[k]})
		}
	}
	ep.lanes = paired
	return made
}

// has reports whether a transport's endpoint is that of a lane, or of the auxiliary lane.
func (ws *wireupState) has(ep *Endpoint, ue uct.Endpoint) bool {
	return ep.pair != nil && ep.pair.aux.uct == ue || hasLane(ep.lanes, ue)
}

// onPairReply connects the lanes with the ends in a reply.
func (ws *wireupState) onPairReply(ep *Endpoint, m *proto.Wireup) {
	p := ep.pair
	fresh := p.joined != p.lanes
	if err := ws.join(ep, &m.Address, ep.pair.number, ep.dest.address); err != nil {
		ep.fail(err)
		return
	}
	if fresh || p.conn != nil || m.Type == proto.WireupReplyReconfig {
		ws.sendWireup(ep, proto.WireupAck, ep.remoteID, ep.w.own.emptyAddress())
	}
	ws.paired(ep)
}

// onWireupAck handles the acknowledgement of a peer that has connected its ends.
func (ws *wireupState) onWireupAck(src *uct.Source, m *proto.Wireup) {
	w := ws.w
	ep := w.endpoints.Get(uint64(m.DstEp))
	if ep == nil || ep.pair == nil || !ep.pair.waits || w.admission.spoofed(src, ep) {
		w.stats.Dropped++
		return
	}
	ws.paired(ep)
}

// Addresses of the ends of pairwise lanes, and the matching of ends with lanes.

// wireupLane returns the lane for a wireup message. While the peer's end of the usual lane may not
// be connected yet, that is a lane that was connected before, or the auxiliary one.
func (ws *wireupState) wireupLane(ep *Endpoint, t proto.WireupType) uint8 {
	k := ep.cfg.lanes.wireupLane(t)
	p := ep.pair
	switch {
	case p == nil || t == proto.WireupAck:
	case p.aux.uct != nil && (p.conn != nil || p.lanes&(1<<k) != 0):
		return auxNumber
	case p.kept != 0 && p.kept&(1<<k) == 0:
		return uint8(bits.TrailingZeros64(p.kept))
	}
	return k
}

// laneAddress describes lanes of the endpoint to its peer. which is the set of lanes. For a
// pairwise lane in the set, the address includes its end, under the number that number returns for
// the lane.
func (ws *wireupState) laneAddress(ep *Endpoint, which uint64, number func(lane int) uint8) (proto.WorkerAddress, error) {
	has := func(i *iface) bool {
		for k := range ep.lanes {
			if which&(1<<k) != 0 && ep.lanes[k].iface == i {
				return true
			}
		}
		return ep.pair.aux.iface == i && which == allLanes && ep.pair.conn == nil
	}
	a := ep.w.own.describe(has)
	err := ws.addEnds(ep, &a, which, number)
	for k := range ep.lanes {
		if which&^ep.pair.lanes&(1<<k) != 0 {
			ep.lanes[k].addOther(&a)
		}
	}
	if which == allLanes && ep.pair.conn == nil {
		ep.pair.aux.addOther(&a)
	}
	return a, err
}

// addEnds adds the ends of the lanes in which to an address of the worker. If the peer reaches a
// lane at another address than that of its interface, that address is used for the device.
func (ws *wireupState) addEnds(ep *Endpoint, a *proto.WorkerAddress, which uint64, number func(lane int) uint8) (failed error) {
	a.Ifaces(func(_ int, dev *proto.AddressDevice, f *proto.AddressIface) bool {
		for k := range ep.lanes {
			if ep.pair.lanes&which&(1<<k) == 0 || ep.lanes[k].iface.index != f.RscIndex {
				continue
			}
			end, err := ep.lanes[k].uct.(uct.Paired).Address()
			if err != nil {
				failed = fmt.Errorf("ucp: address of lane %d of endpoint %s: %w", k, ep.describe(), err)
				return false
			}
			f.EpAddrs = append(f.EpAddrs, proto.AddressEp{Lane: number(k), Addr: end})
			if m, ok := ep.lanes[k].uct.(uct.Multihomed); ok {
				if at, other := m.InterfaceAddr(); other {
					dev.Addr, f.Addr = at.DeviceAddr, at.IfaceAddr
				}
			}
		}
		return true
	})
	return failed
}

// allLanes is the set of all lanes of an endpoint, including the auxiliary one.
const allLanes = ^uint64(0)

// laneNumbers maps a lane number of this side to the peer's number of the lane.
type laneNumbers [proto.MaxLanes]uint8

// match returns which end in the address of a request each lane is for. The lanes were chosen
// toward that address. A lane that is connected already keeps the end that it is connected with;
// the other lanes get the remaining ends in order.
func (ws *wireupState) match(ep *Endpoint, addr *proto.WorkerAddress) (numbers laneNumbers, err error) {
	p := ep.pair
	var taken uint64
	for _, joined := range []bool{true, false} {
		for rest := p.lanes; rest != 0; rest &= rest - 1 {
			k := bits.TrailingZeros64(rest)
			if (p.joined&(1<<k) != 0) != joined {
				continue
			}
			dev, f := addr.Entry(int(p.entries[k]))
			if f == nil {
				return numbers, fmt.Errorf("ucp: the peer has no endpoint for lane %s: %w", ep.w.selection.laneName(ep, k), ucs.ErrUnreachable)
			}
			e := slices.IndexFunc(f.EpAddrs, func(e proto.AddressEp) bool {
				return e.Lane < proto.MaxLanes && taken&(1<<e.Lane) == 0 && (!joined || ep.lanes[k].leadsTo(dev, f, e.Addr))
			})
			if e < 0 {
				return numbers, fmt.Errorf("ucp: the peer has no endpoint for lane %s: %w", ep.w.selection.laneName(ep, k), ucs.ErrUnreachable)
			}
			numbers[k] = f.EpAddrs[e].Lane
			taken |= 1 << numbers[k]
		}
	}
	return numbers, nil
}

// join connects the lanes with the ends in addr, finding each end by its number there. An end must
// be at the entry of chosen that its lane was chosen toward: the peer may not send this worker
// elsewhere, for example to another place on this machine. chosen is nil for the data of a
// connection manager. A manager knows the device, and the addresses of interfaces in its data may
// be meaningless (proto.FormCMBoth).
func (ws *wireupState) join(ep *Endpoint, addr *proto.WorkerAddress, number func(lane int) uint8, chosen *proto.WorkerAddress) error {
	p := ep.pair
	for rest := p.lanes &^ p.joined; rest != 0; rest &= rest - 1 {
		k := bits.TrailingZeros64(rest)
		dev, f, end := endOf(addr, number(k))
		if end == nil {
			return fmt.Errorf("ucp: the peer has made no endpoint for lane %s: %w", ep.w.selection.laneName(ep, k), ucs.ErrUnreachable)
		}
		var iface []byte
		if chosen != nil {
			iface = f.Addr
			d, i := chosen.Entry(int(p.entries[k]))
			if i == nil || i.Transport != f.Transport || !bytes.Equal(d.Addr, dev.Addr) || !bytes.Equal(i.Addr, f.Addr) {
				return fmt.Errorf("ucp: the peer's endpoint for lane %s is at another interface: %w", ep.w.selection.laneName(ep, k), ucs.ErrInvalidAddr)
			}
		}
		if err := ep.lanes[k].uct.(uct.Paired).ConnectToEP(dev.Addr, iface, end); err != nil {
			return fmt.Errorf("ucp: connecting lane %s: %w", ep.w.selection.laneName(ep, k), err)
		}
		p.joined |= 1 << k
	}
	return nil
}

// endOf returns the end with a number, and the device and interface that it belongs to. end is nil
// if no end has the number.
func endOf(addr *proto.WorkerAddress, number uint8) (dev *proto.AddressDevice, at *proto.AddressIface, end []byte) {
	addr.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
		if e := slices.IndexFunc(f.EpAddrs, func(e proto.AddressEp) bool { return e.Lane == number }); e >= 0 {
			dev, at, end = d, f, f.EpAddrs[e].Addr
		}
		return end == nil
	})
	return dev, at, end
}

// A request names an end for each of the peer's pairwise lanes, and the peer gives up if one of
// these ends gets no counterpart. Releases choose differently: C UCX 1.13 keeps the lane of a
// connection manager beside a better one; this library and C UCX 1.22 do not. Therefore the
// answering side keeps every lane that the peer has kept, even one that it does not need, and makes
// no lane where the peer has no end.

// withKept returns a copy of a choice of lanes, with spare lanes added that the peer has kept.
// These are the spare lanes that are connected with an end in the address and that the choice does
// not use. An added lane has no purpose.
func (ws *wireupState) withKept(chosen proto.LaneConfig, addr *proto.WorkerAddress, mode ErrMode, rules *laneRules) proto.LaneConfig {
	w := ws.w
	in := w.selection.laneInput(addr, mode, rules)
	chosen.Lanes = slices.Clip(chosen.Lanes)
	for k := range rules.spare {
		s := &rules.spare[k]
		local, entry := slices.Index(w.ifaces, s.iface), rules.entryOf(s)
		if entry < 0 || len(chosen.Lanes) == proto.MaxLanes ||
			slices.ContainsFunc(chosen.Lanes, func(l proto.Lane) bool { return l.Local == local && l.Remote == entry }) {
			continue
		}
		chosen.Paired |= 1 << len(chosen.Lanes)
		chosen.Lanes = append(chosen.Lanes, in.Lane(local, entry))
	}
	return chosen
}
