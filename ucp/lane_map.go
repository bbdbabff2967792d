package ucp

import (
	"slices"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// laneMap says what the lanes of an endpoint are for, by the numbers that the
// selection gave them. Where the selection has no lane for a purpose the lane of
// messages serves it too, as far as it is able to; only keepalive goes without.
//
// Lanes for long eager messages (am_bw) are in epConfig.eager, with what they take. Those for
// pointers into the peer's memory (rkey_ptr) have no entry, as nothing would read it: mapping
// memory takes no lane (Endpoint.mappings).
type laneMap struct {
	am        uint8   // messages: one lane for all first packets keeps their order
	wireup    uint8   // requests and replies of wireup
	keepalive uint8   // questions to the peer's worker; proto.NullLane: none are asked
	checked   []uint8 // whose transports the keepalive asks
	rma       []uint8 // puts and gets, short or copied, best first
	amo       []uint8 // atomic operations, best first
	bandwidth []uint8 // what is long and not copied: rendezvous, puts and gets, best first
}

// newLaneMap takes the purposes from a choice that has a lane for messages.
func newLaneMap(c *proto.LaneConfig) laneMap {
	list := func(lanes []uint8) []uint8 {
		if len(lanes) == 0 {
			return []uint8{c.AM}
		}
		return slices.Clone(lanes)
	}
	m := laneMap{
		am: c.AM, wireup: c.Wireup, keepalive: c.Keepalive,
		rma: list(c.RMA), amo: list(c.AMO), bandwidth: list(c.RMABW),
	}
	if m.wireup == proto.NullLane {
		m.wireup = m.am
	}
	return m
}

// laneMap is newLaneMap as the settings want it.
func (w *Worker) laneMap(c *proto.LaneConfig) laneMap {
	m := newLaneMap(c)
	if w.ctx.settings.WireupByAM {
		m.wireup = m.am
	}
	if w.ctx.settings.SingleNet {
		m.bandwidth = w.oneNetDevice(c, m.bandwidth)
	}
	return m
}

// oneNetDevice leaves out lanes of all network devices but one
// (ucp_proto_multi_filter_single_net_device in src/ucp/proto/proto_multi.c, which goes by
// the place of devices in the machine, where this goes by their names).
func (w *Worker) oneNetDevice(c *proto.LaneConfig, lanes []uint8) []uint8 {
	network := func(k uint8) (device string, is bool) {
		r := &w.ifaces[c.Lanes[k].Local].attr.Resource
		return r.Device, r.Type == uct.DeviceNetwork
	}
	var devices []string
	for _, k := range lanes {
		if d, is := network(k); is && !slices.Contains(devices, d) {
			devices = append(devices, d)
		}
	}
	if len(devices) < 2 {
		return lanes
	}
	slices.Sort(devices)
	one := devices[w.ctx.settings.NodeLocalID.Int(0)%len(devices)]
	return slices.DeleteFunc(slices.Clone(lanes), func(k uint8) bool {
		d, is := network(k)
		return is && d != one
	})
}

// wireupLane returns the lane of a wireup message (ucp_wireup_get_msg_lane in
// src/ucp/wireup/wireup.c, ucp_worker_do_ep_keepalive in
// src/ucp/core/ucp_worker.c).
func (m *laneMap) wireupLane(t proto.WireupType) uint8 {
	switch {
	case t == proto.WireupAck:
		return m.am
	case t == proto.WireupEpCheck && m.keepalive != proto.NullLane:
		return m.keepalive
	}
	return m.wireup
}

// restrict takes from a lane, described for one-sided operations, what it is not
// for.
func (m *laneMap) restrict(lane uint8, l *proto.RMALane) {
	rma := slices.Contains(m.rma, lane)
	if !rma {
		l.PutShort, l.PutBcopy, l.GetBcopy = 0, 0, 0
	}
	l.Wide = slices.Contains(m.bandwidth, lane)
	if !rma && !l.Wide {
		l.PutZcopy, l.GetZcopy = 0, 0
	}
	if !slices.Contains(m.amo, lane) {
		l.Atomic32, l.Atomic64 = false, false
	}
}

// checkedLanes are those whose transports find out about a lost peer only when
// they are asked. C asks the keepalive lane. The lanes through shared memory are
// asked besides: a message into it leaves whether its reader lives or not, and
// each knows things of its own, the peer's process and its segment. So are those that
// connect pairwise: their devices know in a few seconds, and datagrams, by which
// the keepalive goes where there are some, after half a minute. A choice
// without a keepalive lane has nothing but these questions, so there all lanes
// are asked that do not watch.
func (w *Worker) checkedLanes(c *proto.LaneConfig) (list []uint8) {
	for k := range c.Lanes {
		a := w.ifaces[c.Lanes[k].Local].attr
		if !a.Flags.Has(uct.IfaceEpCheck) || a.Flags.Has(uct.IfaceEpKeepalive) {
			continue
		}
		if c.Keepalive == proto.NullLane || c.Keepalive == uint8(k) || c.Paired&(1<<k) != 0 || a.Resource.Type == uct.DeviceShared {
			list = append(list, uint8(k))
		}
	}
	return list
}
