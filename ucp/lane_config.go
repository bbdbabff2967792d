package ucp

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// laneSelection chooses the lanes of a worker's endpoints, and caches the choices.
type laneSelection struct {
	w         *Worker
	locals    []proto.LocalIface // the interfaces, described for the selection
	lastLanes proto.LaneCache    // choice for the last destination
	configs   map[string]*epConfig
}

// epConfig is what endpoints with the same lanes share: the limits of the transports and the
// decision tables. It does not change after it is made, except for the tables of rma, which are
// made with the first key.
type epConfig struct {
	chosen proto.LaneConfig // choice of lanes, without what differs between endpoints of one configuration
	lanes  laneMap

	short    int          // largest payload that TagSend sends inline, -1 for none
	shortAM  int          // same for AMSend
	maxBcopy int          // longest message, headers included
	maxZcopy int          // same for zero-copy, 0 for none
	maxIOV   int          // most entries of a buffer list that the transport takes
	segSize  int          // longest message that the peer takes, 0 if its address does not say
	needMemh bool         // a lane needs local memory handles
	eager    []eagerRail  // lanes over which fragments are sent in turn, the lane for messages first
	put      []memoryLane // lanes over which the peer's memory can be written
	get      []memoryLane // lanes over which the peer's memory can be read
	keys     messageKeys  // keys that messages bring for put and get

	// putInOrder means that no message overtakes a write into the peer's memory, because both
	// travel on one connection.
	putInOrder bool

	maps    []mapping // domains that map the peer's memory
	mapMDs  uint64    // domains of this process whose memory the peer may map
	mapFrom int       // length of the shortest message that is offered from such memory

	costs proto.ProtoInput // input that the tables are made from

	endpointTables
}

// memoryLane is a lane that reaches the peer's memory.
type memoryLane struct {
	lane   uint8
	max    int   // longest operation
	keyed  bool  // needs a key of the domain, which the message brings
	md     uint8 // number of this process's domain
	peerMD uint8 // number of the peer's domain
}

// maxConfigs is the most configurations that a worker keeps for later endpoints. A configuration
// depends on the longest message that a peer takes, which the peer chooses.
const maxConfigs = 64

// key returns a string of everything that a configuration depends on, within a worker.
func (p *lanePlan) key() string {
	c := p.chosen
	b := make([]byte, 0, 96)
	b = append(b, byte(len(c.Lanes)))
	for i := range c.Lanes {
		l := &c.Lanes[i]
		b = append(b, byte(l.Local), byte(l.Path), l.DstMD, l.DstSysDev)
		b = binary.AppendUvarint(b, uint64(l.SegSize))
	}
	b = append(b, c.AM, c.RkeyPtr, c.CM, c.Keepalive, c.Wireup)
	for _, list := range [][]uint8{c.AMBW, c.RMA, c.RMABW, c.AMO} {
		b = append(append(b, byte(len(list))), list...)
	}
	for _, m := range p.maps {
		kin := byte(0)
		if m.kin {
			kin = 1
		}
		b = append(b, m.peerMD, m.iface.index, kin)
	}
	return string(b)
}

// configFor returns the configuration for a choice of lanes, which it makes if the worker has none.
func (ls *laneSelection) configFor(p *lanePlan) *epConfig {
	w := ls.w
	key := p.key()
	if c := ls.configs[key]; c != nil {
		return c
	}
	am := &p.chosen.Lanes[p.chosen.AM]
	i, segSize := w.ifaces[am.Local], am.SegSize
	a := i.attr
	perf := ls.lanePerf(i, segSize)
	in := proto.ProtoInput{AM: perf, Settings: ls.protoSettings(i)}
	c := &epConfig{
		chosen:   p.shared(),
		lanes:    ls.laneMap(p.chosen),
		maxBcopy: a.AM.MaxBcopy,
		maxZcopy: perf.MaxZcopy,
		maxIOV:   min(max(a.AM.MaxIOV, 1), maxIOVEntries),
		segSize:  segSize,
	}
	c.lanes.checked = ls.checkedLanes(p.chosen)
	c.eager = w.eager.eagerRails(p, &in)
	for _, e := range c.eager[1:] {
		if e.zcopy > 0 {
			c.maxIOV = min(c.maxIOV, w.ifaces[p.chosen.Lanes[e.lane].Local].attr.AM.MaxIOV)
		}
	}
	for k := range p.chosen.Lanes {
		if w.mds[w.ifaces[p.chosen.Lanes[k].Local].md].Attr().Flags&uct.MDFlagNeedMemh != 0 {
			c.needMemh = true
		}
	}
	onDevice := make(map[string]int) // number of lanes so far
	for _, k := range c.lanes.bandwidth {
		l := &p.chosen.Lanes[k]
		i := w.ifaces[l.Local]
		perf := ls.lanePerf(i, l.SegSize)
		perf.Bandwidth *= w.ctx.settings.pathShare(onDevice[i.attr.Resource.Device])
		onDevice[i.attr.Resource.Device]++
		way := memoryLane{lane: k, keyed: w.rndv.keyed(i.md), md: uint8(i.md), peerMD: l.DstMD}
		if way.keyed && way.peerMD >= proto.MaxMDs {
			continue // no key can name the peer's domain
		}
		if way.max = perf.PutZcopy; way.max > 0 && len(c.put) < maxMessageKeys {
			in.Put = append(in.Put, perf)
			c.put = append(c.put, way)
			c.maxIOV = min(c.maxIOV, max(i.attr.Put.MaxIOV, 1))
		}
		if way.max = perf.GetZcopy; way.max > 0 && len(c.get) < maxMessageKeys {
			in.Get = append(in.Get, perf)
			c.get = append(c.get, way)
			c.maxIOV = min(c.maxIOV, max(i.attr.Get.MaxIOV, 1))
		}
	}
	c.keys = w.rndv.messageKeys(c)
	c.maps = p.maps
	for _, m := range p.maps {
		in.Map = append(in.Map, ls.lanePerf(m.iface, 0))
	}
	c.putInOrder = !w.ctx.settings.RndvFlush && len(c.put) == 1 && c.put[0].lane == c.lanes.am && a.Flags.Has(uct.IfacePutAMOrder)
	for _, m := range p.maps {
		if m.kin {
			c.mapMDs |= 1 << m.md
		}
	}
	c.short, c.shortAM, c.mapFrom, c.costs = -1, -1, never, in
	for _, f := range w.families {
		f.configure(c, &in)
	}
	if segSize > 0 {
		c.maxBcopy = min(c.maxBcopy, segSize)
		c.maxZcopy = min(c.maxZcopy, segSize)
	}
	if len(ls.configs) < maxConfigs {
		w.tellLanes(len(ls.configs), p.chosen)
		ls.configs[key] = c
	}
	if w.ctx.settings.ProtoInfo.prints(w.ctx.log) {
		w.printTables(c, c.explain(w, nil))
	}
	if w.usage != nil {
		c.short, c.shortAM = -1, -1 // with UCX_PROTO_INFO=used every operation is counted
	}
	w.ctx.printTables(func(out io.Writer) error {
		_, err := fmt.Fprintln(out, strings.Join(p.chosen.Lines(), "\n"))
		return err
	})
	return c
}

// shared returns the choice of lanes without what differs between endpoints of the same
// configuration: which entries of the peer's address the lanes lead to, and their scores.
func (p *lanePlan) shared() proto.LaneConfig {
	c := *p.chosen
	c.Lanes = slices.Clone(c.Lanes)
	for i := range c.Lanes {
		c.Lanes[i].Remote, c.Lanes[i].Scores = -1, proto.Lane{}.Scores
	}
	return c
}

// explain returns the decision tables with their reasons: those for contiguous memory and, if ep is
// not nil, those of the endpoint's keys.
func (c *epConfig) explain(w *Worker, ep *Endpoint) (list []proto.TableInfo) {
	if c.chosen.Lanes == nil {
		return nil // there are no lanes yet
	}
	for _, f := range w.families {
		list = append(list, f.explain(ep, c)...)
	}
	return list
}

// maxIOVEntries is the most entries of a buffer list that a request keeps.
const maxIOVEntries = 16

// maxShort returns the length of the longest message that is sent inline whatever hints the caller
// gives, -1 if none is.
func maxShort(t *proto.MessageTables) int {
	return min(t.Table(proto.DataContig, 0).MaxShort(), t.Table(proto.DataContig, proto.SendMulti).MaxShort())
}

// offerMapped sets the length from which messages in memory that the peer may map are offered to
// it.
func (c *epConfig) offerMapped(t *proto.MessageTables) {
	for mode := proto.SendMode(0); mode <= proto.SendFast|proto.SendMulti; mode++ {
		c.mapFrom = min(c.mapFrom, t.Table(proto.DataMapped, mode).FirstRendezvous())
	}
}

// laneMap holds the purposes of an endpoint's lanes, by the numbers that the selection gave them.
// If the selection has no lane for a purpose, the lane for messages serves it too, as far as it
// can. Only keepalive may have no lane.
//
// Lanes for long eager messages (am_bw) are in epConfig.eager, with their limits. Lanes for
// pointers into the peer's memory (rkey_ptr) have no entry here, as nothing would read it: mapping
// memory takes no lane (laneSelection.mappings).
type laneMap struct {
	am        uint8   // messages: one lane for all first packets keeps their order
	wireup    uint8   // requests and replies of wireup
	keepalive uint8   // keepalive messages to the peer's worker; proto.NullLane: none are sent
	checked   []uint8 // lanes whose transports the keepalive asks
	rma       []uint8 // puts and gets, short or copied, best first
	amo       []uint8 // atomic operations, best first
	bandwidth []uint8 // long transfers without copying: rendezvous, puts and gets, best first
}

// newLaneMap returns the purposes of lanes in a choice that has a lane for messages.
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

// laneMap is newLaneMap with the settings applied.
func (ls *laneSelection) laneMap(c *proto.LaneConfig) laneMap {
	w := ls.w
	m := newLaneMap(c)
	if w.ctx.settings.WireupByAM {
		m.wireup = m.am
	}
	if w.ctx.settings.SingleNet {
		m.bandwidth = ls.oneNetDevice(c, m.bandwidth)
	}
	return m
}

// oneNetDevice leaves out the lanes of all network devices but one. UCX_NODE_LOCAL_ID selects the
// device among the device names in order; C UCX goes by the place of devices in the machine
// (ucp_proto_multi_filter_single_net_device in src/ucp/proto/proto_multi.c).
func (ls *laneSelection) oneNetDevice(c *proto.LaneConfig, lanes []uint8) []uint8 {
	w := ls.w
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

// restrict removes from the description of a lane for one-sided operations the operations that the
// lane is not for.
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

// checkedLanes returns the lanes whose transports notice the loss of a peer only when they are
// asked. C UCX asks the keepalive lane. This library also asks lanes through shared memory: a
// message into shared memory leaves whether its reader lives or not, and each such lane knows
// something of its own, the peer's process and its segment. It also asks lanes that are connected
// pairwise: their devices notice a loss in a few seconds, while datagrams, which carry the
// keepalive where there are some, need half a minute. A choice without a keepalive lane has no
// other checks, so all its lanes are asked that do not watch the peer by themselves.
func (ls *laneSelection) checkedLanes(c *proto.LaneConfig) (list []uint8) {
	w := ls.w
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

// Input of the cost model: descriptions of lanes, and the user's settings.

// lanePerf describes an interface for the cost model. segSize is the longest message that the peer
// takes, 0 if unknown.
func (ls *laneSelection) lanePerf(i *iface, segSize int) proto.LanePerf {
	w := ls.w
	a, md := i.attr, w.mds[i.md].Attr()
	_, ppn := w.ctx.estimates()
	p := proto.LanePerf{
		Name:         a.Resource.String(),
		MaxBcopy:     a.AM.MaxBcopy,
		SegSize:      segSize,
		SendOverhead: a.Perf.SendOverhead,
		RecvOverhead: a.Perf.RecvOverhead,
		CopyOverhead: a.Perf.CopyOverhead,
		Latency:      a.Perf.Latency.C,
		Bandwidth:    a.Perf.Bandwidth(ppn),
		Batches:      a.Batches,
	}
	if a.Flags.Has(uct.IfaceAMShort) {
		p.MaxShort = a.AM.MaxShort
	}
	if a.Flags.Has(uct.IfaceAMZcopy) {
		p.MaxZcopy = a.AM.MaxZcopy
	}
	// Memory that was not registered in advance can be accessed without a key, or by a key that the
	// message brings.
	if md.Flags&uct.MDFlagNeedRkey == 0 || w.rndv.keyed(i.md) {
		if a.Flags.Has(uct.IfacePutZcopy) {
			p.PutZcopy = a.Put.MaxZcopy
		}
		if a.Flags.Has(uct.IfaceGetZcopy) {
			p.GetZcopy = a.Get.MaxZcopy
		}
	}
	if md.Flags&uct.MDFlagNeedMemh != 0 {
		p.RegCost = md.RegCost
	}
	return p
}

// protoSettings returns the user's thresholds for an interface.
func (ls *laneSelection) protoSettings(i *iface) proto.ProtoSettings {
	w := ls.w
	s := &w.ctx.settings
	rndv := s.RndvThresh.Inter
	if i.attr.Resource.Type != uct.DeviceNetwork {
		rndv = s.RndvThresh.Intra
	}
	p := proto.DefaultProtoSettings()
	p.BcopyThresh = threshold(s.BcopyThresh)
	p.ZcopyThresh = threshold(s.ZcopyThresh)
	p.RndvThresh = threshold(rndv)
	p.RndvFast = threshold(s.RndvNbr)
	p.RndvScheme = proto.RndvScheme(s.RndvScheme)
	p.RndvBias = s.RndvDiff / 100
	p.Spread = proto.Spread{MaxRatio: s.LaneRatio, MinChunk: s.RndvChunk.Int(0)}
	p.Allow = s.Protos.allow()
	if !s.BcopyBw.IsAuto() {
		p.CopyBW = float64(s.BcopyBw)
	}
	return p
}

// threshold converts a setting into a threshold of the cost model.
func threshold(b config.Bytes) proto.Threshold {
	switch b {
	case config.BytesAuto:
		return proto.ThreshAuto
	case config.BytesInf:
		return proto.ThreshInf
	}
	return proto.Threshold(b.Int(0))
}

// pathShare returns the fraction of a device's bandwidth that is left for a lane if other lanes use
// the device already, as UCX_MULTI_PATH_RATIO says (ucp_proto_multi_get_avail_bw). With auto, each
// lane has the full bandwidth.
func (s *settings) pathShare(others int) float64 {
	const least = 0.01
	if s.PathRatio.IsAuto() || others == 0 {
		return 1
	}
	if left := 1 - s.PathRatio.Float(0)*float64(others); left >= least {
		return left
	}
	return least / float64(others)
}
