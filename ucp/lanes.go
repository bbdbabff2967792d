package ucp

import (
	"slices"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Lanes of endpoints. An endpoint has several lanes, each a transport connection of its own. Lanes
// have the numbers that the selection gave them (proto.SelectLanes), so that peers, ucx_info and
// Explain mean the same lane by a number. The purpose of each lane is in the laneMap of the
// endpoint's configuration.

// lane is one transport connection of an endpoint.
type lane struct {
	iface  *iface
	uct    uct.Endpoint
	remote remote // the part of uct that accesses remote memory; refuses what the transport does not have
}

// leadsTo reports whether the lane is connected with the end that has these addresses.
func (l *lane) leadsTo(dev *proto.AddressDevice, f *proto.AddressIface, end []byte) bool {
	at, ok := l.uct.(uct.Located)
	return ok && at.LeadsTo(dev.Addr, f.Addr, end)
}

// hasLane reports whether a transport's endpoint is that of one of the lanes in list.
func hasLane(list []lane, ue uct.Endpoint) bool {
	return slices.ContainsFunc(list, func(l lane) bool { return l.uct == ue })
}

// isFor reports whether the lane is connected with one of the ends that the addresses name.
func (l *lane) isFor(dev *proto.AddressDevice, f *proto.AddressIface) bool {
	return slices.ContainsFunc(f.EpAddrs, func(e proto.AddressEp) bool { return l.leadsTo(dev, f, e.Addr) })
}

// remote is the set of a transport's operations on the peer's memory.
type remote interface {
	uct.RMA
	uct.Atomic
}

// remoteOf returns the operations on the peer's memory of a transport's endpoint. Operations that
// the transport does not have are refused.
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

// lanePlan is what a configuration is made from.
type lanePlan struct {
	chosen *proto.LaneConfig
	maps   []mapping
}

// amLane returns the number of the lane for messages.
func (ep *Endpoint) amLane() uint8 { return ep.cfg.lanes.am }

// maxMessage returns the length of the longest message that a lane takes, headers included.
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

// toward assigns the request to an endpoint. The request starts on the lane for messages.
func (r *Request) toward(ep *Endpoint) {
	r.bind(ep)
	r.lane = ep.amLane()
}

// lane returns the transport's endpoint of a lane. If the endpoint is closed, it returns one that
// refuses every operation.
func (ep *Endpoint) lane(k uint8) uct.Endpoint {
	if int(k) < len(ep.lanes) {
		return ep.lanes[k].uct
	}
	return ep.w.selection.auxLane(ep, k)
}

// remote returns the operations of a lane on the peer's memory. If the endpoint is closed, all of
// them are refused.
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

// closeLanes closes all lanes. With linger it leaves those lanes to their transport that can linger
// (uct.Lingerer).
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

// pairing is the extra state of an endpoint that has lanes that are connected pairwise, or that a
// connection manager has made.
type pairing struct {
	lanes    uint64      // set of the lanes that are connected pairwise
	joined   uint64      // subset of lanes whose other end is known
	kept     uint64      // subset of joined that was connected before the agreement in progress
	entries  []uint8     // for each lane, the entry of the address it was chosen toward
	aux      lane        // carries wireup messages until the lanes do; uct is nil if there is none
	auxEntry int         // address entry that aux leads to
	waits    bool        // this side has replied and waits for the acknowledgement
	looked   uint8       // how often the keepalive has found waits set, since the last change
	conn     *connection // state of an endpoint that a connection manager has made, nil for others
}

// number returns the number that peers give a lane. With a connection manager, whose own lane is
// lane 0 for peers, it is one higher than the number here.
func (p *pairing) number(lane int) uint8 {
	if p.conn != nil {
		lane++
	}
	return uint8(lane)
}

// conn returns the connection state of an endpoint that a connection manager has made, nil for
// others.
func (ep *Endpoint) conn() *connection {
	if ep.pair == nil {
		return nil
	}
	return ep.pair.conn
}

// auxNumber stands for the auxiliary lane among the numbers of lanes.
const auxNumber = proto.NullLane - 1

// auxLane is lane for numbers that are not in the endpoint's list of lanes: it returns the
// auxiliary lane for auxNumber, if there is one.
func (ls *laneSelection) auxLane(ep *Endpoint, k uint8) uct.Endpoint {
	if p := ep.pair; p != nil && k == auxNumber && p.aux.uct != nil {
		return p.aux.uct
	}
	return refuse{}
}

// auxMaxMessage is maxMessage for numbers that are not in the endpoint's list of lanes.
func (ls *laneSelection) auxMaxMessage(ep *Endpoint, k uint8) int {
	if p := ep.pair; p != nil && k == auxNumber && p.aux.uct != nil {
		return p.aux.iface.attr.AM.MaxBcopy
	}
	return 0
}

// unpair discards the state of pairwise lanes after the lanes were closed. The state of a
// connection manager's connection stays.
func (ls *laneSelection) unpair(ep *Endpoint) {
	ls.dropAux(ep)
	if p := ep.pair; p != nil && p.conn != nil {
		*p = pairing{conn: p.conn}
		return
	}
	ep.pair = nil
}

// auxLost handles the failure of a transport's endpoint, if that is the auxiliary lane while this
// side waits for the acknowledgement. It reports whether the failure does not matter. A peer that
// has received the reply closes lanes that it no longer needs, and its acknowledgement comes over
// another lane, perhaps behind messages that are here already. auxLost lets the transports of the
// joined lanes check whether the peer is there.
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
			_ = c.Check(nil) // a negative result is reported as a failure
		}
	}
	return true
}

// dropAux closes the auxiliary lane, which carries no more messages. Requests in its queue are
// canceled.
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

// refuse stands in for the lane of a closed endpoint, so that no code path has to check for a
// missing lane.
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
