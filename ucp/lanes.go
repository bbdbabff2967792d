package ucp

import (
	"slices"

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
		return ep.w.selection.auxMaxMessage(ep, k)
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
	return ep.w.selection.auxLane(ep, k)
}

// remote is lane for access to the peer's memory.
func (ep *Endpoint) remote(k uint8) remote {
	if int(k) < len(ep.lanes) {
		return ep.lanes[k].remote
	}
	return refuse{}
}

// laneName returns "transport/device" of a lane.
func (ls *laneSelection) laneName(ep *Endpoint, i int) string {
	if i >= len(ep.lanes) {
		return "no lane"
	}
	return ep.lanes[i].iface.attr.Resource.String()
}

// closeLanes closes all, or leaves those to their transport that can linger.
func (ee *endpointEnds) closeLanes(ep *Endpoint, linger bool) {
	for i := range ep.lanes {
		if l, ok := ep.lanes[i].uct.(uct.Lingerer); ok && linger {
			l.Linger()
		} else {
			ep.lanes[i].uct.Close()
		}
	}
	ep.lanes, ep.ue = nil, refuse{}
	ep.w.selection.unpair(ep)
}

// pairing is what an endpoint has besides some of whose lanes are connected pairwise.
type pairing struct {
	lanes    uint64      // those that are
	joined   uint64      // of these, those whose other end is known
	kept     uint64      // of these, those that were connected before the agreement that is under way
	entries  []uint8     // for each lane, the entry of the address it was chosen toward
	aux      lane        // carries wireup messages until the lanes do; uct is nil if there is none
	auxEntry int         // of the address that it leads to
	waits    bool        // has answered, and waits for the acknowledgement
	looked   uint8       // how often the keepalive has found it waiting, since the last change
	conn     *connection // of an endpoint that a connection manager has made, nil for others
}

// number is what peers call a lane: behind a connection manager's, which is lane 0 there.
func (p *pairing) number(lane int) uint8 {
	if p.conn != nil {
		lane++
	}
	return uint8(lane)
}

// conn returns what the endpoint has that a connection manager has made, nil for others.
func (ep *Endpoint) conn() *connection {
	if ep.pair == nil {
		return nil
	}
	return ep.pair.conn
}

// auxNumber stands for the auxiliary lane among the numbers of lanes.
const auxNumber = proto.NullLane - 1

// auxLane is lane for numbers that no lane has.
func (ls *laneSelection) auxLane(ep *Endpoint, k uint8) uct.Endpoint {
	if p := ep.pair; p != nil && k == auxNumber && p.aux.uct != nil {
		return p.aux.uct
	}
	return refuse{}
}

// auxMaxMessage is maxMessage for those.
func (ls *laneSelection) auxMaxMessage(ep *Endpoint, k uint8) int {
	if p := ep.pair; p != nil && k == auxNumber && p.aux.uct != nil {
		return p.aux.iface.attr.AM.MaxBcopy
	}
	return 0
}

// unpair is told that the lanes are closed.
func (ls *laneSelection) unpair(ep *Endpoint) {
	ls.dropAux(ep)
	if p := ep.pair; p != nil && p.conn != nil {
		*p = pairing{conn: p.conn}
		return
	}
	ep.pair = nil
}

// auxLost is told that an endpoint of a transport has failed. It reports whether that does
// not matter: a peer that has got the answer closes what it has no more use for, and its
// acknowledgement comes over another lane, perhaps with messages that are here already.
// The lanes are asked whether it is there.
func (ls *laneSelection) auxLost(ep *Endpoint, ue uct.Endpoint) bool {
	p := ep.pair
	if p == nil || !p.waits || p.aux.uct != ue {
		return false
	}
	ls.dropAux(ep)
	p.looked = 0
	if p.conn != nil {
		return true
	}
	for k := range ep.lanes {
		if c, ok := ep.lanes[k].uct.(uct.Checker); ok && p.joined&(1<<k) != 0 {
			_ = c.Check(nil) // what it finds arrives as a failure
		}
	}
	return true
}

// dropAux closes the auxiliary lane, over which nobody will be told anything any more.
func (ls *laneSelection) dropAux(ep *Endpoint) {
	p := ep.pair
	if p == nil || p.aux.uct == nil {
		return
	}
	ue := p.aux.uct
	ue.PendingPurge(func(p *uct.Pending) {
		if h, ok := p.Owner.(*hooks); ok {
			(*Request)(h).abort(ucs.ErrCanceled)
		}
	})
	p.aux = lane{}
	ue.Close()
}

// refuse stands in for the lane of a closed endpoint, so that no path has to
// look for one.
type refuse struct {
	uct.NoAM
	uct.NoRMA
	uct.NoAtomic
}

var _ uct.Endpoint = refuse{}

func (refuse) Flush(uct.FlushFlags, *uct.Completion) error { return ucs.ErrNotConnected }
func (refuse) Fence() error                                { return ucs.ErrNotConnected }
func (refuse) PendingAdd(*uct.Pending) error               { return ucs.ErrNotConnected }
func (refuse) PendingPurge(func(*uct.Pending))             {}
func (refuse) Close()                                      {}
