package ucp

import (
	"slices"

	"github.com/ucx-go/ucx/proto"
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

// leadsTo reports whether the lane is connected with the end that has these addresses.
func (l *lane) leadsTo(dev *proto.AddressDevice, f *proto.AddressIface, end []byte) bool {
	at, ok := l.uct.(uct.Located)
	return ok && at.LeadsTo(dev.Addr, f.Addr, end)
}

// hasLane reports whether a transport's endpoint is that of one of the lanes.
func hasLane(list []lane, ue uct.Endpoint) bool {
	return slices.ContainsFunc(list, func(l lane) bool { return l.uct == ue })
}

// isFor reports whether the lane is connected with one of the ends that the addresses name.
func (l *lane) isFor(dev *proto.AddressDevice, f *proto.AddressIface) bool {
	return slices.ContainsFunc(f.EpAddrs, func(e proto.AddressEp) bool { return l.leadsTo(dev, f, e.Addr) })
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

// lanePlan is all that a configuration is made from.
type lanePlan struct {
	chosen *proto.LaneConfig
	maps   []mapping
}

// amLane is the number of the lane for messages.
func (ep *Endpoint) amLane() uint8 { return ep.cfg.lanes.am }

// maxMessage is the longest message a lane takes, headers included.
func (ep *Endpoint) maxMessage(k uint8) int {
	if int(k) >= len(ep.lanes) {
		return ep.auxMaxMessage(k)
	}
	l := &ep.cfg.chosen.Lanes[k]
	n := ep.w.ifaces[l.Local].attr.AM.MaxBcopy
	if l.SegSize > 0 {
		n = min(n, l.SegSize)
	}
	return n
}

// toward says which endpoint an operation is of. It begins on the lane of
// messages.
func (r *Request) toward(ep *Endpoint) {
	r.bind(ep)
	r.lane = ep.amLane()
}

// lane returns the transport's endpoint of a lane; one that refuses when the
// endpoint is closed.
func (ep *Endpoint) lane(k uint8) uct.Endpoint {
	if int(k) < len(ep.lanes) {
		return ep.lanes[k].uct
	}
	return ep.auxLane(k)
}

// remote is lane for access to the peer's memory.
func (ep *Endpoint) remote(k uint8) remote {
	if int(k) < len(ep.lanes) {
		return ep.lanes[k].remote
	}
	return refuse{}
}

// laneName returns "transport/device" of a lane.
func (ep *Endpoint) laneName(i int) string {
	if i >= len(ep.lanes) {
		return "no lane"
	}
	return ep.lanes[i].iface.attr.Resource.String()
}

// closeLanes closes all, or leaves those to their transport that can linger.
func (ep *Endpoint) closeLanes(linger bool) {
	for i := range ep.lanes {
		if l, ok := ep.lanes[i].uct.(uct.Lingerer); ok && linger {
			l.Linger()
		} else {
			ep.lanes[i].uct.Close()
		}
	}
	ep.lanes, ep.ue = nil, refuse{}
	ep.unpair()
}
