package ucp

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// epConfig is what endpoints with the same lanes have in common: the limits of
// the transports and the decision tables. It does not change once made, but for
// the tables of rma, which are made with the first key.
type epConfig struct {
	chosen proto.LaneConfig // without what endpoints of one configuration differ in
	lanes  laneMap

	short    int          // largest payload that TagSend sends inline, -1 for none
	shortAM  int          // the same of AMSend
	maxBcopy int          // longest message, headers included
	maxZcopy int          // same for zero-copy, 0 for none
	maxIOV   int          // entries of a list the transport takes
	segSize  int          // longest message the peer takes, 0 if it did not say
	needMemh bool         // a lane wants local handles
	eager    []eagerRail  // over which fragments go in turn, that of messages first
	put      []memoryLane // over which the peer's memory can be written
	get      []memoryLane // and read
	keys     messageKeys  // that messages bring for these

	// putInOrder says that no message overtakes a write into the peer's memory:
	// both travel on one connection.
	putInOrder bool

	maps    []mapping // domains that map the peer's memory
	mapMDs  uint64    // domains of ours whose memory the peer may map
	mapFrom int       // shortest message that is offered out of such memory

	costs proto.ProtoInput // what the tables are made from

	endpointTables
}

// memoryLane is a lane that reaches the peer's memory.
type memoryLane struct {
	lane   uint8
	max    int   // longest operation
	keyed  bool  // with a key of the domain, which the message brings
	md     uint8 // number of our domain
	peerMD uint8 // and of the peer's
}

// maxConfigs bounds the configurations that a worker keeps for the next
// endpoint: peers choose the length of messages.
const maxConfigs = 64

// key is what a configuration depends on, within a worker.
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

// configFor returns the configuration for a choice of lanes.
func (w *Worker) configFor(p *lanePlan) *epConfig {
	key := p.key()
	if c := w.configs[key]; c != nil {
		return c
	}
	am := &p.chosen.Lanes[p.chosen.AM]
	i, segSize := w.ifaces[am.Local], am.SegSize
	a := i.attr
	perf := w.lanePerf(i, segSize)
	in := proto.ProtoInput{AM: perf, Settings: w.protoSettings(i)}
	c := &epConfig{
		chosen:   p.shared(),
		lanes:    w.laneMap(p.chosen),
		maxBcopy: a.AM.MaxBcopy,
		maxZcopy: perf.MaxZcopy,
		maxIOV:   min(max(a.AM.MaxIOV, 1), maxIOVEntries),
		segSize:  segSize,
	}
	c.lanes.checked = w.checkedLanes(p.chosen)
	c.eager = w.eagerRails(p, &in)
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
	onDevice := make(map[string]int) // lanes so far
	for _, k := range c.lanes.bandwidth {
		l := &p.chosen.Lanes[k]
		i := w.ifaces[l.Local]
		perf := w.lanePerf(i, l.SegSize)
		perf.Bandwidth *= w.ctx.settings.pathShare(onDevice[i.attr.Resource.Device])
		onDevice[i.attr.Resource.Device]++
		way := memoryLane{lane: k, keyed: w.keyed(i.md), md: uint8(i.md), peerMD: l.DstMD}
		if way.keyed && way.peerMD >= proto.MaxMDs {
			continue // no key can name its domain
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
	c.keys = w.messageKeys(c)
	c.maps = p.maps
	for _, m := range p.maps {
		in.Map = append(in.Map, w.lanePerf(m.iface, 0))
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
	if len(w.configs) < maxConfigs {
		w.tellLanes(len(w.configs), p.chosen)
		w.configs[key] = c
	}
	if w.ctx.settings.ProtoInfo.prints(w.ctx.log) {
		w.printTables(c, c.explain(w, nil))
	}
	if w.usage != nil {
		c.short, c.shortAM = -1, -1 // every operation is to be counted
	}
	w.ctx.printTables(func(out io.Writer) error {
		_, err := fmt.Fprintln(out, strings.Join(p.chosen.Lines(), "\n"))
		return err
	})
	return c
}

// shared returns the choice without what differs between endpoints that have the
// same configuration: which entries of the peer's address the lanes lead to, and
// their scores.
func (p *lanePlan) shared() proto.LaneConfig {
	c := *p.chosen
	c.Lanes = slices.Clone(c.Lanes)
	for i := range c.Lanes {
		c.Lanes[i].Remote, c.Lanes[i].Scores = -1, proto.Lane{}.Scores
	}
	return c
}

// explain returns the decision tables with their reasons: for contiguous memory, and
// with an endpoint those of its keys.
func (c *epConfig) explain(w *Worker, ep *Endpoint) (list []proto.TableInfo) {
	if c.chosen.Lanes == nil {
		return nil // there are no lanes yet
	}
	for _, f := range w.families {
		list = append(list, f.explain(ep, c)...)
	}
	return list
}

// maxIOVEntries bounds the list a request keeps.
const maxIOVEntries = 16

// maxShort is the longest message that goes inline whatever the caller says about it,
// -1 if none does.
func maxShort(t *proto.MessageTables) int {
	return min(t.Table(proto.DataContig, 0).MaxShort(), t.Table(proto.DataContig, proto.SendMulti).MaxShort())
}

// offerMapped decides from where on messages out of memory that the peer may map
// are offered to it.
func (c *epConfig) offerMapped(t *proto.MessageTables) {
	for mode := proto.SendMode(0); mode <= proto.SendFast|proto.SendMulti; mode++ {
		c.mapFrom = min(c.mapFrom, t.Table(proto.DataMapped, mode).FirstRendezvous())
	}
}
