package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// An endpoint has several lanes, each a transport connection of its own, under the
// numbers that the selection gave them (proto.SelectLanes): peers, ucx_info and
// Explain mean the same lane by a number. What each is for is in the laneMap of
// the endpoint's configuration.

// lane is one transport connection of an endpoint.
type lane struct {
	iface  *iface
	uct    uct.Endpoint
	remote remote // a part of it; refuses what the transport does not have
}

// remote is what transports can do to the peer's memory.
type remote interface {
	uct.RMA
	uct.Atomic
}

// remoteOf returns that part of a transport's endpoint.
func remoteOf(ue uct.Endpoint) remote {
	switch p := ue.(type) {
	case remote:
		return p
	case uct.RMA:
		return struct {
			uct.NoAtomic
			uct.RMA
		}{RMA: p}
	case uct.Atomic:
		return struct {
			uct.NoRMA
			uct.Atomic
		}{Atomic: p}
	}
	return refuse{}
}

// connect chooses the lanes toward an address and creates them, under the numbers
// and for the purposes of the choice. What turns out not to work is left out, and
// the choice made anew without it.
func (ep *Endpoint) connect(addr *proto.WorkerAddress) error { return ep.connectBy(addr, nil) }

// connectBy is connect over a connection of the peer's, if that is given.
func (ep *Endpoint) connectBy(addr *proto.WorkerAddress, back *wayBack) error {
	w := ep.w
	for {
		chosen, why, err := w.chooseLanes(addr, ep.errMode, ep.refused, back)
		if err != nil {
			for _, s := range w.unopened {
				err = fmt.Errorf("%w; not opened: %s", err, s)
			}
			return err
		}
		if chosen.AM == proto.NullLane {
			return fmt.Errorf("ucp: no lane for messages: %w", ucs.ErrUnreachable)
		}
		if route, err := ep.openLanes(addr, chosen.Lanes, back); err != nil {
			ep.leaveOut(route, err)
			continue
		}
		plan := lanePlan{chosen: &chosen, maps: ep.mappings(addr)}
		ep.cfg = w.configFor(&plan)
		ep.ue = ep.lanes[ep.amLane()].uct
		ep.where = w.whereabouts(addr, chosen.Lanes, why)
		return nil
	}
}

// leaveOut notes that a lane of the choice cannot be had; the caller chooses anew
// without it. That is right as long as the peer need not choose alike: so far
// every lane connects to an interface, and no number of ours is of interest to
// the peer. Lanes that are connected pairwise need the same choice on both sides.
// For them this is the place to refuse the endpoint, or to agree with the peer on
// other lanes by a message.
func (ep *Endpoint) leaveOut(route laneRoute, err error) {
	if ep.refused == nil {
		ep.refused = make(map[laneRoute]error)
	}
	ep.refused[route] = err
}

// openLanes creates the lanes. If one cannot be, it closes those before and says
// which, and why.
func (ep *Endpoint) openLanes(addr *proto.WorkerAddress, lanes []proto.Lane, back *wayBack) (laneRoute, error) {
	w := ep.w
	ep.lanes = make([]lane, 0, len(lanes))
	ep.process = 0
	for k := range lanes {
		l := &lanes[k]
		dev, f := addr.Entry(l.Remote)
		i := w.ifaces[l.Local]
		ue, err := i.uct.NewEndpoint(uct.EndpointParams{
			DeviceAddr: dev.Addr,
			IfaceAddr:  f.Addr,
			Over:       back.source(),
			PathIndex:  l.Path,
			ForPeer:    ep.state&epUser == 0,
			UserData:   ep,
		})
		if p, ok := ue.(uct.ProcessEndpoint); ok && err == nil {
			if err = ep.meet(p.Process()); err != nil {
				ue.Close()
			}
		}
		if err != nil {
			ep.closeLanes()
			return laneRoute{l.Local, l.Remote}, err
		}
		ep.lanes = append(ep.lanes, lane{iface: i, uct: ue, remote: remoteOf(ue)})
	}
	return laneRoute{}, nil
}

// wayBack is a connection of a peer's, and the interface that it came to.
type wayBack struct {
	iface *iface
	src   *uct.Source
}

// source is the connection, nil if there is no way back to keep to.
func (b *wayBack) source() *uct.Source {
	if b == nil {
		return nil
	}
	return b.src
}

// reachable reports whether an interface has the connection.
func (b *wayBack) reachable(i *iface) error {
	if i != b.iface {
		return fmt.Errorf("ucp: the peer's connection came to another device: %w", ucs.ErrUnreachable)
	}
	return nil
}

// laneRoute is an interface and an entry of the peer's address, by number.
type laneRoute struct{ local, remote int }

// lanePlan is all that a configuration is made from.
type lanePlan struct {
	chosen *proto.LaneConfig
	maps   []mapping
}

// amLane is the number of the lane for messages.
func (ep *Endpoint) amLane() uint8 { return ep.cfg.lanes.am }

// maxMessage is the longest message a lane takes, headers included.
func (ep *Endpoint) maxMessage(k uint8) int {
	l := &ep.cfg.chosen.Lanes[k]
	n := ep.w.ifaces[l.Local].attr.AM.MaxBcopy
	if l.SegSize > 0 {
		n = min(n, l.SegSize)
	}
	return n
}

// toward says which endpoint an operation is of. It begins on the lane of
// messages.
func (r *Request) toward(ep *Endpoint) { r.ep, r.lane = ep, ep.amLane() }

// lane returns the transport's endpoint of a lane; one that refuses when the
// endpoint is closed.
func (ep *Endpoint) lane(k uint8) uct.Endpoint {
	if int(k) < len(ep.lanes) {
		return ep.lanes[k].uct
	}
	return refuse{}
}

// remote is lane for access to the peer's memory.
func (ep *Endpoint) remote(k uint8) remote {
	if int(k) < len(ep.lanes) {
		return ep.lanes[k].remote
	}
	return refuse{}
}

// selectLanes decides which interface leads to which entry of an address.
// Routes that were tried in vain are out.
func (w *Worker) selectLanes(addr *proto.WorkerAddress, mode ErrMode, refused map[laneRoute]error) (proto.LaneConfig, proto.LaneTrace, error) {
	return proto.SelectLanes(w.laneInput(addr, mode, refused, nil))
}

// chooseLanes is selectLanes over a connection of the peer's, if that is given. It
// returns the digest of the trace.
func (w *Worker) chooseLanes(addr *proto.WorkerAddress, mode ErrMode, refused map[laneRoute]error, back *wayBack) (proto.LaneConfig, uint64, error) {
	in := w.laneInput(addr, mode, refused, back)
	if len(refused) == 0 && back == nil {
		return w.lastLanes.Select(in)
	}
	c, trace, err := proto.SelectLanes(in)
	return c, trace.Digest(), err
}

// laneInput is what the selection goes by.
func (w *Worker) laneInput(addr *proto.WorkerAddress, mode ErrMode, refused map[laneRoute]error, back *wayBack) *proto.LaneInput {
	eps, ppn := w.ctx.estimates()
	// Interfaces that cannot wake a sleeper are not opened where that matters.
	features := proto.Features(w.ctx.params.Features & (FeatureTag | FeatureStream | FeatureAM | FeatureRMA | FeatureAMO32 | FeatureAMO64))
	var numbers map[*proto.AddressIface]int
	if len(refused) > 0 {
		numbers = make(map[*proto.AddressIface]int)
		addr.Ifaces(func(n int, _ *proto.AddressDevice, f *proto.AddressIface) bool {
			numbers[f] = n
			return true
		})
	}
	return &proto.LaneInput{
		Features:  features | proto.FeatureTag, // wireup needs messages in any case
		ErrMode:   proto.ErrMode(mode),
		Keepalive: mode != ErrModeNone,
		Local:     w.locals,
		Remote:    addr,
		Reachable: func(local int, d *proto.AddressDevice, f *proto.AddressIface) error {
			if len(refused) > 0 {
				if err := refused[laneRoute{local, numbers[f]}]; err != nil {
					return err
				}
			}
			if back != nil {
				return back.reachable(w.ifaces[local])
			}
			return w.ifaces[local].uct.Reachable(uct.ReachableParams{DeviceAddr: d.Addr, IfaceAddr: f.Addr})
		},
		NumEndpoints: eps,
		PPN:          ppn,
		RndvScheme:   proto.RndvScheme(w.ctx.settings.RndvScheme),
	}
}

// local describes an interface for the selection of lanes.
func (w *Worker) local(i *iface) proto.LocalIface {
	l := proto.LocalIface{
		Transport: i.id,
		Device:    w.deviceNumber(i),
		MD:        uint8(i.md),
		Attr:      *i.attr,
		Domain:    *w.mds[i.md].Attr(),
	}
	if i.attr.Resource.Type == uct.DeviceShared && i.attr.Flags.Has(uct.IfaceEpCheck) {
		// Shared memory tells of no failure, but the kernel knows which processes
		// live and the keepalive asks it.
		l.Attr.Flags |= uct.IfaceErrHandlePeerFail
	}
	return l
}

// deviceNumber gives interfaces of one device the same number.
func (w *Worker) deviceNumber(i *iface) int {
	for k, o := range w.ifaces {
		if o == i || o.md == i.md && o.attr.Resource.Device == i.attr.Resource.Device {
			return k
		}
	}
	return len(w.ifaces)
}

// laneName returns "transport/device" of a lane.
func (ep *Endpoint) laneName(i int) string {
	if i >= len(ep.lanes) {
		return "no lane"
	}
	return ep.lanes[i].iface.attr.Resource.String()
}

func (ep *Endpoint) closeLanes() {
	for i := range ep.lanes {
		ep.lanes[i].uct.Close()
	}
	ep.lanes, ep.ue = nil, refuse{}
}
