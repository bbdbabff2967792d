package ucp

import (
	"math"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// never is a size that nothing reaches.
const never = math.MaxInt

// rmaTables returns the tables for the memory of a key. Keys that the same lanes
// open share them. A lane is taken for what the selection chose it for, and for
// anything it is able to where nothing was chosen and it is that of messages.
func (ep *Endpoint) rmaTables(k *Rkey) *proto.RMATables {
	var lanes uint64
	for i := range k.ways {
		lanes |= 1 << k.ways[i].lane
	}
	if t := ep.cfg.rma[lanes]; t != nil {
		return t
	}
	w := ep.w
	am := ep.lanes[ep.amLane()].iface
	in := proto.RMAInput{AM: w.lanePerf(am, ep.cfg.segSize), Settings: w.protoSettings(am)}
	in.Rails = int(min(w.ctx.settings.RMARails, proto.MaxLanes))
	in.Spread = proto.Spread{MaxRatio: w.ctx.settings.LaneRatio, MinChunk: w.ctx.settings.RMAChunk.Int(0)}
	for i := range k.ways {
		l := w.rmaLane(&k.ways[i], ep.lanes[k.ways[i].lane].iface)
		ep.cfg.lanes.restrict(k.ways[i].lane, &l)
		if w.ctx.settings.RMARails == 0 {
			l.PutZcopy, l.GetZcopy = 0, 0
		}
		in.Lanes = append(in.Lanes, l)
	}
	t := proto.NewRMATables(&in)
	if ep.cfg.rma == nil {
		ep.cfg.rma = make(map[uint64]*proto.RMATables)
	}
	ep.cfg.rma[lanes] = t
	if w.ctx.settings.ProtoInfo.prints(w.ctx.log) {
		w.printTables(ep.cfg, t.Explain(proto.DataContig))
	}
	return t
}

// rmaLane describes a way for the cost model.
func (w *Worker) rmaLane(way *rkeyWay, i *iface) proto.RMALane {
	a := i.attr
	l := proto.RMALane{
		Perf:        w.lanePerf(i, 0),
		MinPutZcopy: a.Put.MinZcopy,
		MinGetZcopy: a.Get.MinZcopy,
		Atomic32:    allAtomics(a.Atomic32),
		Atomic64:    allAtomics(a.Atomic64),
	}
	if a.Flags.Has(uct.IfacePutShort) {
		l.PutShort = a.Put.MaxShort
	}
	if a.Flags.Has(uct.IfacePutBcopy) {
		l.PutBcopy = a.Put.MaxBcopy
	}
	if a.Flags.Has(uct.IfaceGetBcopy) {
		l.GetBcopy = a.Get.MaxBcopy
	}
	if way.zcopy(uct.IfacePutZcopy) {
		l.PutZcopy = a.Put.MaxZcopy
	}
	if way.zcopy(uct.IfaceGetZcopy) {
		l.GetZcopy = a.Get.MaxZcopy
	}
	return l
}

// explainRMA returns the tables for one-sided operations with their reasons: those
// of the endpoint's keys, or without any those of a key that opens every lane. Keys have none
// as long as there are no lanes.
func (ep *Endpoint) explainRMA() []proto.TableInfo {
	if ep == nil || len(ep.lanes) == 0 {
		return nil
	}
	var list []proto.TableInfo
	seen := make(map[*proto.RMATables]bool)
	add := func(t *proto.RMATables) {
		if !seen[t] {
			seen[t] = true
			list = append(list, t.Explain(proto.DataContig)...)
		}
	}
	for k := ep.w.rma.keys; k != nil; k = k.next {
		if k.ep == ep && k.tables != nil {
			add(k.tables)
		}
	}
	if list == nil {
		k := &Rkey{ep: ep}
		for i := range ep.lanes {
			k.ways = append(k.ways, ep.way(uint8(i)))
		}
		add(ep.rmaTables(k))
	}
	return list
}

// zcopy reports whether a way can do without copies, by itself or with memory
// that is registered for the purpose.
func (w *rkeyWay) zcopy(flag uct.IfaceFlags) bool {
	f := w.md.Attr().Flags
	return w.attr.Flags.Has(flag) && (f&uct.MDFlagNeedMemh == 0 || f&uct.MDFlagRegister != 0)
}
