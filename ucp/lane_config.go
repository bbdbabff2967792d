package ucp

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// laneSelection chooses the lanes of a worker's endpoints, and caches the last choice and the
// configurations made from choices.
type laneSelection struct {
	w         *Worker
	locals    []proto.LocalIface // the interfaces, described for the selection
	lastLanes proto.LaneCache    // cache of the choice for the last destination
	configs   map[string]*epConfig
}

// epConfig is what endpoints with the same lanes share: the limits of the transports and the
// decision tables. It does not change after it is made, except for the tables of one-sided
// operations (endpointTables.rma), which are made when the first remote key needs them.
type epConfig struct {
	chosen proto.LaneConfig // choice of lanes, without what differs between endpoints of one configuration
	lanes  proto.LaneMap

	short   int // largest payload that TagSend sends inline, -1 for none
	shortAM int // same for AMSend

	// Payloads of fewer bytes are sent inline or copied into one packet by TagSend, and by AMSend without a
	// header, in whatever memory they are.
	copyBelow, copyAMBelow int32

	maxBcopy int          // longest message, headers included
	maxZcopy int          // same for zero-copy messages, 0 if the transport has none
	maxIOV   int          // most entries of a buffer list that the transport takes
	segSize  int          // longest message that the peer takes, 0 if its address does not say
	needMemh bool         // a lane needs local memory handles
	inHost   bool         // all lanes go through memory of this host
	eager    []eagerRail  // lanes over which fragments are sent in turn, the lane for messages first
	put      []memoryLane // lanes over which the peer's memory can be written
	get      []memoryLane // lanes over which the peer's memory can be read
	keys     messageKeys  // remote keys that rendezvous messages carry for the lanes in put and get

	// putInOrder means that no message overtakes a write into the peer's memory, because both
	// travel on one connection.
	putInOrder bool

	maps    []mapping // memory domains of this process that can map the peer's memory
	mapMDs  uint64    // bit set of the memory domains of this process whose memory the peer may map
	mapFrom int       // length of the shortest message that is offered from such memory

	costs proto.ProtoInput // input that the tables are made from

	endpointTables
}

// memoryLane is a lane over which the peer's memory can be written or read.
type memoryLane struct {
	lane   uint8
	max    int   // length of the longest operation in bytes
	keyed  bool  // needs a remote key of the peer's domain, which the message carries
	md     uint8 // index of the lane's memory domain in this process
	peerMD uint8 // index of the peer's memory domain
}

// maxConfigs is the most configurations that a worker keeps for later endpoints. The number is
// bounded because configurations differ by the longest message that a peer takes, which the peer
// chooses.
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
		mapped := byte(0)
		if m.peerMaps {
			mapped = 1
		}
		b = append(b, m.peerMD, m.iface.index, mapped)
	}
	return string(b)
}

// configFor returns the configuration for the lanes in p. It makes the configuration unless the
// worker has it already.
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
		chosen:   p.chosen.Shared(),
		lanes:    ls.laneMap(p.chosen),
		maxBcopy: a.AM.MaxBcopy,
		maxZcopy: perf.MaxZcopy,
		maxIOV:   min(max(a.AM.MaxIOV, 1), maxIOVEntries),
		segSize:  segSize,
	}
	c.eager = w.eager.eagerRails(p, &in)
	for _, e := range c.eager[1:] {
		if e.zcopy > 0 {
			c.maxIOV = min(c.maxIOV, w.ifaces[p.chosen.Lanes[e.lane].Local].attr.AM.MaxIOV)
		}
	}
	c.inHost = true
	for k := range p.chosen.Lanes {
		if t := w.ifaces[p.chosen.Lanes[k].Local].attr.Resource.Type; t != uct.DeviceShared && t != uct.DeviceSelf {
			c.inHost = false
		}
		if w.mds[w.ifaces[p.chosen.Lanes[k].Local].md].Attr().Flags&uct.MDFlagNeedMemh != 0 {
			c.needMemh = true
		}
	}
	onDevice := make(map[string]int) // number of lanes by device
	for _, k := range c.lanes.Bandwidth {
		l := &p.chosen.Lanes[k]
		i := w.ifaces[l.Local]
		perf := ls.lanePerf(i, l.SegSize)
		perf.Bandwidth *= w.ctx.settings.pathShare(onDevice[i.attr.Resource.Device])
		onDevice[i.attr.Resource.Device]++
		way := memoryLane{lane: k, keyed: w.rndv.keyed(i.md), md: uint8(i.md), peerMD: l.DstMD}
		if way.keyed && way.peerMD >= proto.MaxMDs {
			continue // a remote key cannot contain this domain index
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
	c.putInOrder = !w.ctx.settings.RndvFlush && len(c.put) == 1 && c.put[0].lane == c.lanes.AM && a.Flags.Has(uct.IfacePutAMOrder)
	for _, m := range p.maps {
		if m.peerMaps {
			c.mapMDs |= 1 << m.md
		}
	}
	c.short, c.shortAM, c.mapFrom, c.costs = -1, -1, never, in
	for _, f := range w.families {
		f.configure(c, &in)
	}
	// Memory that the peer may map makes a difference from mapFrom on, which every family may have lowered.
	mapFrom := int32(min(c.mapFrom, math.MaxInt32))
	c.copyBelow, c.copyAMBelow = min(c.copyBelow, mapFrom), min(c.copyAMBelow, mapFrom)
	if segSize > 0 {
		c.maxBcopy = min(c.maxBcopy, segSize)
		c.maxZcopy = min(c.maxZcopy, segSize)
	}
	if len(ls.configs) < maxConfigs {
		w.logLanes(len(ls.configs), p.chosen)
		ls.configs[key] = c
	}
	if w.ctx.settings.ProtoInfo.prints(w.ctx.log) {
		w.printTables(c, c.explain(w, nil))
	}
	if w.usage != nil {
		c.short, c.shortAM, c.copyBelow, c.copyAMBelow = -1, -1, 0, 0 // with UCX_PROTO_INFO=used every operation is counted
	}
	w.ctx.printTables(func(out io.Writer) error {
		_, err := fmt.Fprintln(out, strings.Join(p.chosen.Lines(), "\n"))
		return err
	})
	return c
}

// explain returns the decision tables with their reasons: those for contiguous memory and, if ep is
// not nil, those for the remote keys of the endpoint ep.
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

// maxShort returns the length of the longest message that the tables send inline, with or without
// OpMultiSend; -1 if there is none.
func maxShort(t *proto.MessageTables) int {
	return min(t.Table(proto.DataContig, 0).MaxShort(), t.Table(proto.DataContig, proto.SendMulti).MaxShort())
}

// copiedBelow returns the length of the shortest payload that the tables t do not send inline or by copying it
// into one packet.
func copiedBelow(t *proto.MessageTables) int32 {
	return int32(min(t.Table(proto.DataContig, 0).MaxCopied()+1, math.MaxInt32))
}

// offerMapped sets the length from which messages in memory that the peer may map are offered to
// it.
func (c *epConfig) offerMapped(t *proto.MessageTables) {
	for mode := proto.SendMode(0); mode <= proto.SendFast|proto.SendMulti; mode++ {
		c.mapFrom = min(c.mapFrom, t.Table(proto.DataMapped, mode).FirstRendezvous())
	}
}

// laneMap returns the purposes of the lanes in the choice c, as changed by the settings.
func (ls *laneSelection) laneMap(c *proto.LaneConfig) proto.LaneMap {
	s, m := &ls.w.ctx.settings, proto.NewLaneMap(c)
	if s.WireupByAM {
		m.Wireup = m.AM
	}
	if s.SingleNet {
		m.Bandwidth = ls.oneNetDevice(c, m.Bandwidth)
	}
	m.Checked = c.CheckedLanes(ls.locals)
	return m
}

// oneNetDevice returns lanes without those of all network devices but the one that the settings
// select.
func (ls *laneSelection) oneNetDevice(c *proto.LaneConfig, lanes []uint8) []uint8 {
	return c.OneNetDevice(ls.locals, lanes, ls.w.ctx.settings.NodeLocalID.Int(0))
}

// Input of the cost model: descriptions of lanes, and the user's settings.

// lanePerf describes an interface for the cost model. segSize is the longest message that the peer
// takes, 0 if unknown.
func (ls *laneSelection) lanePerf(i *iface, segSize int) proto.LanePerf {
	w := ls.w
	_, ppn := w.ctx.estimates()
	return proto.PerfOf(i.attr, w.mds[i.md].Attr(), segSize, ppn, w.rndv.keyed(i.md))
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

// pathShare returns the fraction of a device's bandwidth that is available to a lane if others, a
// number of lanes, use the device already. UCX_MULTI_PATH_RATIO gives the share of each
// (ucp_proto_multi_get_avail_bw); with auto, each lane has the full bandwidth.
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
