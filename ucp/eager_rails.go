package ucp

import (
	"math"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// The fragments of an eager message may go over several lanes in turn (UCX_MAX_EAGER_RAILS):
// the first, which is matched in order, over the lane of messages, the others over it and
// those that were chosen for the purpose. A receiver puts fragments together in any order,
// but for those of streams, which have nothing but their order on one lane.

// eagerRail is a lane that takes fragments.
type eagerRail struct {
	lane         uint8
	bcopy, zcopy int // longest fragment, headers included; 0: it takes none without a copy
}

// minRail is the least that a lane has to take at once to be of use.
const minRail = 512

// eagerRails are the lanes for fragments, that of messages first, with the others in the
// input of the cost model. Faster ones get longer fragments (ucp_proto_multi_init in
// src/ucp/proto/proto_multi.c).
func (w *Worker) eagerRails(p *lanePlan, in *proto.ProtoInput) []eagerRail {
	rails := []eagerRail{{p.chosen.AM, in.AM.MaxBcopy, in.AM.MaxZcopy}}
	if in.AM.SegSize > 0 {
		rails[0].bcopy, rails[0].zcopy = min(rails[0].bcopy, in.AM.SegSize), min(rails[0].zcopy, in.AM.SegSize)
	}
	lanes := p.chosen.AMBW
	if w.ctx.settings.SingleNet {
		lanes = w.oneNetDevice(p.chosen, append([]uint8{p.chosen.AM}, lanes...))
	}
	speeds := []float64{speed(&in.AM)}
	best := speeds[0]
	for _, k := range lanes {
		if k == p.chosen.AM || len(rails) >= int(w.ctx.settings.EagerRails) {
			continue
		}
		l := &p.chosen.Lanes[k]
		i := w.ifaces[l.Local]
		perf := w.lanePerf(i, l.SegSize)
		r := eagerRail{k, min(perf.MaxBcopy, rails[0].bcopy), min(perf.MaxZcopy, rails[0].zcopy)}
		if l.SegSize > 0 {
			r.bcopy, r.zcopy = min(r.bcopy, l.SegSize), min(r.zcopy, l.SegSize)
		}
		if r.zcopy < minRail || i.attr.AM.MaxIOV < 2 {
			r.zcopy = 0
		}
		if b := speed(&perf); r.bcopy >= minRail && b*w.ctx.settings.LaneRatio >= best {
			best = math.Max(best, b)
			rails, speeds = append(rails, r), append(speeds, b)
			in.Rails = append(in.Rails, perf)
		}
	}
	scaleRails(rails, speeds, func(r *eagerRail) *int { return &r.bcopy })
	scaleRails(rails, speeds, func(r *eagerRail) *int { return &r.zcopy })
	return rails
}

// speed is the bandwidth of a lane in numbers that can be divided.
func speed(l *proto.LanePerf) float64 { return math.Min(math.Max(l.Bandwidth, 1), 1e15) }

// scaleRails shortens the fragments of slow lanes, so that all take as long.
func scaleRails(rails []eagerRail, speeds []float64, limit func(*eagerRail) *int) {
	longest := 0.0
	for i := range rails {
		if n := *limit(&rails[i]); n > 0 {
			longest = math.Max(longest, speeds[i]/float64(n))
		}
	}
	for i := range rails {
		if n := limit(&rails[i]); *n > 0 && len(rails) > 1 {
			*n = min(*n, max(int(speeds[i]/longest), minRail))
		}
	}
}

// rail is the lane of the next fragment. The first one has a header that may take all of
// what the lane does.
func (r *Request) rail() eagerRail {
	c := r.ep.cfg
	if int(r.step) >= len(c.eager) || r.form.oneLane {
		r.step = 0
	}
	e := c.eager[r.step]
	if r.offset == 0 {
		e.bcopy, e.zcopy = c.maxBcopy, c.maxZcopy
	}
	r.lane = e.lane
	return e
}

// eagerHandles sees to it that there are handles of a message for the lanes that a protocol
// takes without copies.
func (r *Request) eagerHandles(p proto.Protocol) bool {
	c := r.ep.cfg
	if p != proto.ProtoEagerMultiZcopy {
		return r.laneHandles(c.lanes.am, uct.AccessLocalRead) && r.tailHandles(c.lanes.am)
	}
	rails := c.eager
	if r.form.oneLane {
		rails = rails[:1]
	}
	for i := range rails {
		if e := &rails[i]; (i == 0 || e.zcopy > 0) && !(r.laneHandles(e.lane, uct.AccessLocalRead) && r.tailHandles(e.lane)) {
			return false
		}
	}
	return true
}
