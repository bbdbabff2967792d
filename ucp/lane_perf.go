package ucp

import (
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
)

// What the cost model is told of lanes, and what the user wants of it.

// lanePerf describes an interface for the cost model.
func (w *Worker) lanePerf(i *iface, segSize int) proto.LanePerf {
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
	// Memory that was not registered before is reached without a key, or by one that
	// the message brings.
	if md.Flags&uct.MDFlagNeedRkey == 0 || w.keyed(i.md) {
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

// protoSettings are the user's thresholds for an interface.
func (w *Worker) protoSettings(i *iface) proto.ProtoSettings {
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

// threshold turns a setting into a threshold of the cost model.
func threshold(b config.Bytes) proto.Threshold {
	switch b {
	case config.BytesAuto:
		return proto.ThreshAuto
	case config.BytesInf:
		return proto.ThreshInf
	}
	return proto.Threshold(b.Int(0))
}

// pathShare is the part of a device's bandwidth that is left for a lane when others go over the
// device already, as UCX_MULTI_PATH_RATIO says (ucp_proto_multi_get_avail_bw); auto leaves each
// all of it.
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
