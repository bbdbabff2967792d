package ucp

import (
	"fmt"
	"slices"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// connect chooses the lanes toward an address and creates them, under the numbers
// and for the purposes of the choice. What turns out not to work is left out, and
// the choice made anew without it.
func (ep *Endpoint) connect(addr *proto.WorkerAddress) error {
	return ep.connectBy(addr, laneRules{})
}

// connectBy is connect by rules.
func (ep *Endpoint) connectBy(addr *proto.WorkerAddress, rules laneRules) error {
	w := ep.w
	for {
		rules.refused = ep.refused()
		chosen, why, err := w.chooseLanes(addr, ep.errMode, rules)
		if err != nil {
			for _, s := range w.unopened {
				err = fmt.Errorf("%w; not opened: %s", err, s)
			}
			return err
		}
		if chosen.AM == proto.NullLane {
			return fmt.Errorf("ucp: no lane for messages: %w", ucs.ErrUnreachable)
		}
		if rules.ends != nil {
			chosen = w.withKept(chosen, addr, ep.errMode, &rules)
		}
		if route, err := ep.openLanes(addr, &chosen, &rules); err != nil {
			ep.leaveOut(route, err)
			continue
		}
		plan := lanePlan{chosen: &chosen, maps: ep.mappings(addr)}
		ep.cfg = w.configFor(&plan)
		ep.ue = ep.lanes[ep.amLane()].uct
		ep.where = w.whereabouts(addr, chosen.Lanes, why)
		if err := ep.pairLanes(addr, &chosen, &rules); err != nil {
			ep.closeMade(&rules)
			return err
		}
		return nil
	}
}

// leaveOut notes that a lane of the choice cannot be had; the caller chooses anew
// without it. No number of ours is of interest to the peer: those of lanes that are
// connected pairwise are told to it, and where it has asked for one that we cannot make,
// it hears that by the reply that does not have it.
func (ep *Endpoint) leaveOut(route laneRoute, err error) {
	n := ep.note()
	if n.refused == nil {
		n.refused = make(map[laneRoute]error)
	}
	n.refused[route] = err
}

// openLanes creates the lanes. If one cannot be, it closes those before and says
// which, and why.
func (ep *Endpoint) openLanes(addr *proto.WorkerAddress, chosen *proto.LaneConfig, rules *laneRules) (laneRoute, error) {
	w := ep.w
	ep.lanes = make([]lane, 0, len(chosen.Lanes))
	ep.process = 0
	for k := range chosen.Lanes {
		l := &chosen.Lanes[k]
		p := uct.EndpointParams{
			Over:      rules.back.source(),
			PathIndex: l.Path,
			ForPeer:   !ep.life.Mine(),
			Origin:    rules.origin,
			LocalAddr: rules.local,
			UserData:  ep,
		}
		if chosen.Paired&(1<<k) == 0 {
			dev, f := addr.Entry(l.Remote)
			p.DeviceAddr, p.IfaceAddr = dev.Addr, f.Addr
		}
		i := w.ifaces[l.Local]
		n, reused := rules.reuse(i, addr, l, ep.lanes)
		var err error
		if !reused {
			n.iface = i
			if n.uct, err = i.uct.NewEndpoint(p); err == nil {
				n.remote = remoteOf(n.uct)
			}
		}
		if p, ok := n.uct.(uct.ProcessEndpoint); ok && err == nil {
			if err = ep.meet(p.Process()); err != nil && !reused {
				n.uct.Close()
			}
		}
		if err != nil {
			ep.closeMade(rules)
			return laneRoute{l.Local, l.Remote}, err
		}
		ep.lanes = append(ep.lanes, n)
	}
	return laneRoute{}, nil
}

// closeMade closes the lanes that were made by rules, but none that was there before.
func (ep *Endpoint) closeMade(rules *laneRules) {
	ep.lanes = slices.DeleteFunc(ep.lanes, rules.isSpare)
	ep.closeLanes(false)
}

// pairLanes is told of a choice whose lanes were made toward an address.
func (ep *Endpoint) pairLanes(addr *proto.WorkerAddress, chosen *proto.LaneConfig, rules *laneRules) error {
	if chosen.Paired == 0 && !rules.cm {
		return nil
	}
	if ep.pair == nil {
		ep.pair = new(pairing)
	}
	p := ep.pair
	p.lanes, p.joined, p.entries = chosen.Paired, 0, make([]uint8, len(chosen.Lanes))
	for k := range chosen.Lanes {
		p.entries[k] = uint8(chosen.Lanes[k].Remote)
		if chosen.Paired&(1<<k) != 0 && rules.isSpare(ep.lanes[k]) {
			p.joined |= 1 << k
		}
	}
	p.kept = p.joined
	ep.lacks |= needLanes
	if k := ep.cfg.lanes.wireup; rules.cm || p.lanes&(1<<k) == 0 {
		return nil // it takes messages without a connection, or those before do
	}
	return ep.openAux(addr, rules)
}

// openAux makes the auxiliary lane.
func (ep *Endpoint) openAux(addr *proto.WorkerAddress, rules *laneRules) error {
	w := ep.w
	answer := laneRules{refused: rules.refused, answer: true}
	for {
		chosen, _, err := w.selectLanes(addr, ep.errMode, answer)
		if err != nil {
			return err
		}
		l := &chosen.Lanes[0]
		dev, f := addr.Entry(l.Remote)
		i := w.ifaces[l.Local]
		if n, ok := rules.reuse(i, addr, l, ep.lanes); ok {
			n.remote = refuse{}
			ep.pair.aux, ep.pair.auxEntry = n, l.Remote
			return nil
		}
		ue, err := i.uct.NewEndpoint(uct.EndpointParams{
			DeviceAddr: dev.Addr,
			IfaceAddr:  f.Addr,
			ForPeer:    !ep.life.Mine(),
			Origin:     rules.origin,
			UserData:   ep,
		})
		if err == nil {
			ep.pair.aux, ep.pair.auxEntry = lane{iface: i, uct: ue, remote: refuse{}}, l.Remote
			return nil
		}
		ep.leaveOut(laneRoute{l.Local, l.Remote}, err)
		answer.refused = ep.refused()
	}
}
