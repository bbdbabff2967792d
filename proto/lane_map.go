package proto

import (
	"slices"

	"github.com/ucx-go/ucx/uct"
)

// LaneMap holds the purposes of an endpoint's lanes, by the numbers that the selection gave them.
// If the selection has no lane for a purpose, the lane for messages serves it too, as far as it
// can. Only keepalive may have no lane.
//
// Lanes for long eager messages (am_bw) are in package ucp, with their limits. Lanes for
// pointers into the peer's memory (rkey_ptr) have no entry here, because mapping the peer's memory
// needs no lane.
type LaneMap struct {
	AM        uint8   // messages: one lane for all first packets keeps their order
	Wireup    uint8   // requests and replies of wireup
	Keepalive uint8   // keepalive messages; NullLane: any that are sent use the wireup lane
	Checked   []uint8 // lanes whose transports the keepalive asks about the peer (LaneConfig.CheckedLanes)
	RMA       []uint8 // puts and gets, short or copied, best first
	AMO       []uint8 // atomic operations, best first
	Bandwidth []uint8 // long transfers without copying: rendezvous, puts and gets, best first
}

// NewLaneMap returns the purposes of the lanes in the choice c, which must have a lane for
// messages.
func NewLaneMap(c *LaneConfig) LaneMap {
	list := func(lanes []uint8) []uint8 {
		if len(lanes) == 0 {
			return []uint8{c.AM}
		}
		return slices.Clone(lanes)
	}
	m := LaneMap{
		AM: c.AM, Wireup: c.Wireup, Keepalive: c.Keepalive,
		RMA: list(c.RMA), AMO: list(c.AMO), Bandwidth: list(c.RMABW),
	}
	if m.Wireup == NullLane {
		m.Wireup = m.AM
	}
	return m
}

// WireupLane returns the lane of a wireup message (ucp_wireup_get_msg_lane in
// src/ucp/wireup/wireup.c, ucp_worker_do_ep_keepalive in
// src/ucp/core/ucp_worker.c).
func (m *LaneMap) WireupLane(t WireupType) uint8 {
	switch {
	case t == WireupAck:
		return m.AM
	case t == WireupEpCheck && m.Keepalive != NullLane:
		return m.Keepalive
	}
	return m.Wireup
}

// Restrict sets to 0 or false in l, the description of a lane for one-sided operations, the
// operations for which the lane was not selected.
func (m *LaneMap) Restrict(lane uint8, l *RMALane) {
	rma := slices.Contains(m.RMA, lane)
	if !rma {
		l.PutShort, l.PutBcopy, l.GetBcopy = 0, 0, 0
	}
	l.Wide = slices.Contains(m.Bandwidth, lane)
	if !rma && !l.Wide {
		l.PutZcopy, l.GetZcopy = 0, 0
	}
	if !slices.Contains(m.AMO, lane) {
		l.Atomic32, l.Atomic64 = false, false
	}
}

// CheckedLanes returns the lanes whose transports notice the loss of a peer only when they are
// asked. C UCX asks the keepalive lane. This library also asks lanes through shared memory: a
// message into shared memory can be sent even if its reader is dead, and each such lane can check
// the peer's process and its memory segment. It also asks lanes that are connected pairwise: their
// devices notice a loss in a few seconds, while datagrams, which carry the keepalive where there
// are some, need half a minute. If the choice has no keepalive lane, all lanes are asked that do
// not watch the peer by themselves, because nothing else checks the peer.
func (c *LaneConfig) CheckedLanes(local []LocalIface) (list []uint8) {
	for k := range c.Lanes {
		a := &local[c.Lanes[k].Local].Attr
		if !a.Flags.Has(uct.IfaceEpCheck) || a.Flags.Has(uct.IfaceEpKeepalive) {
			continue
		}
		if c.Keepalive == NullLane || c.Keepalive == uint8(k) || c.Paired&(1<<k) != 0 || a.Resource.Type == uct.DeviceShared {
			list = append(list, uint8(k))
		}
	}
	return list
}

// OneNetDevice returns lanes without those of all network devices but one. id selects the device
// among the device names in order (UCX_NODE_LOCAL_ID); C UCX selects it by the devices' locations in
// the machine (ucp_proto_multi_filter_single_net_device in src/ucp/proto/proto_multi.c).
func (c *LaneConfig) OneNetDevice(local []LocalIface, lanes []uint8, id int) []uint8 {
	network := func(k uint8) (device string, is bool) {
		r := &local[c.Lanes[k].Local].Attr.Resource
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
	one := devices[id%len(devices)]
	return slices.DeleteFunc(slices.Clone(lanes), func(k uint8) bool {
		d, is := network(k)
		return is && d != one
	})
}

// Shared returns the choice of lanes without what differs between endpoints of the same
// configuration: which entries of the peer's address the lanes lead to, and their scores.
func (c *LaneConfig) Shared() LaneConfig {
	s := *c
	s.Lanes = slices.Clone(c.Lanes)
	for i := range s.Lanes {
		s.Lanes[i].Remote, s.Lanes[i].Scores = -1, Lane{}.Scores
	}
	return s
}
