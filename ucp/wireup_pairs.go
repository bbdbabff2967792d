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

// paired is told that the lanes are connected at both ends.
func (ws *wireupState) paired(ep *Endpoint) {
	ep.pair.waits, ep.pair.kept = false, 0
	if c := ep.pair.conn; c != nil {
		c.stage = connOpen
	}
	ws.closeAux(ep)
	for r := ep.waiting.head; r != nil; r = r.next {
		r.lane = ep.amLane() // which may have another number now
	}
	ep.w.rma.resolveKeys(ep)
	ep.resolveNeed(needLanes)
}

// closeAux closes the auxiliary lane, as the others carry everything now. What waits for it
// goes over that for messages: of two endpoints of one worker each answers the other, and may
// have its own answer before it could send that.
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

// answerPairs connects the lanes of an endpoint, which were chosen toward the address in a
// request, with the ends that it names, and sends our own.
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

// matchedPairs is told of the request of the peer of an endpoint that waits for it. The error
// says that the lanes that it asks for cannot be had.
func (ws *wireupState) matchedPairs(from *source, ep *Endpoint, m *proto.Wireup) error {
	w := ws.w
	if ep.state&epRequested != 0 && m.Address.UUID > w.uuid {
		ws.idConfirmed(ep, m.SrcEp) // and ours is answered
		return nil
	}
	ws.idConfirmed(ep, m.SrcEp)
	var err error
	if m.Address.UUID != w.uuid { // one's own are all answered, and name the ends that there are
		ep.state &^= epRequested // nobody will answer it
		err = ws.rechooseLanes(ep, &m.Address, from.origin())
	}
	if err == nil {
		err = ws.answerPairs(ep, m)
	}
	return err
}

// rechooseLanes makes the lanes anew, toward the address in a request. Nothing was sent over
// them but a question that nobody answers. Those that are not connected pairwise are kept where
// the new choice has them, too: the peer's end of one may be its lane for wireup and keepalive,
// and would be left with an end that is closed here.
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

// detachUnpaired takes the lanes that are not connected pairwise away from the endpoint, the
// auxiliary one, too.
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

// has reports whether a transport's endpoint is one of the lanes.
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

// onWireupAck is told that a peer has connected its ends.
func (ws *wireupState) onWireupAck(src *uct.Source, m *proto.Wireup) {
	w := ws.w
	ep := w.endpoints.Get(uint64(m.DstEp))
	if ep == nil || ep.pair == nil || !ep.pair.waits || w.admission.spoofed(src, ep) {
		w.stats.Dropped++
		return
	}
	ws.paired(ep)
}

// The ends of lanes that are connected pairwise, and which belong together.

// wireupLane is the lane of a wireup message: as long as the peer's end of the one for them
// may not be connected one that was before, or the auxiliary one.
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

// laneAddress describes lanes of the endpoint to its peer: those in which, and of these
// the ends of the ones that are connected pairwise, under the numbers that number gives
// them.
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

// addEnds puts the ends of lanes into an address of the worker. A device is at the address at
// which the peer reaches it.
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

// allLanes are those of an endpoint, whatever there are, and the auxiliary one.
const allLanes = ^uint64(0)

// laneNumbers are numbers of the peer's lanes, by ours.
type laneNumbers [proto.MaxLanes]uint8

// match finds which ends in the address of a request are for our lanes, which were chosen
// toward it: those that they are connected with, of the others one after the other.
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

// join connects the lanes with the ends in an address that have these numbers there. The
// ends must be where the lanes were chosen toward: to another place, of this machine say,
// the peer may not send us. That is nil for data of a connection manager, which knows the
// device, and where the addresses of interfaces may mean nothing (proto.FormCMBoth).
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

// endOf returns the end with a number, and the device and interface it is at.
func endOf(addr *proto.WorkerAddress, number uint8) (dev *proto.AddressDevice, at *proto.AddressIface, end []byte) {
	addr.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
		if e := slices.IndexFunc(f.EpAddrs, func(e proto.AddressEp) bool { return e.Lane == number }); e >= 0 {
			dev, at, end = d, f, f.EpAddrs[e].Addr
		}
		return end == nil
	})
	return dev, at, end
}

// A request names an end for each of the peer's lanes that is connected pairwise, and the
// peer gives up if one of them gets none of ours. Releases choose differently: C UCX 1.13
// keeps the lane of a connection manager beside a better one, we and 1.22 do not. So who
// answers keeps a lane that the peer has kept, whether he needs it or not, and makes none
// where the peer has no end.

// withKept returns a choice with a lane without purpose added for each spare one that is
// connected with an end in the address and that the choice has no use for.
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
