package ucp

import (
	"slices"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs/log"
)

// tellOpened logs which transports and devices the worker has opened.
func (w *Worker) tellOpened() {
	if !w.ctx.log.Enabled(log.LevelInfo) {
		return
	}
	var names []string
	for _, i := range w.ifaces {
		names = append(names, i.attr.Resource.String())
	}
	w.ctx.log.Info("worker uses", zap.String("worker", w.name), zap.Strings("transports", names))
}

// tellLanes logs which lanes endpoints of a configuration use, in the words of C UCX
// (ucp_worker_print_used_tls in src/ucp/core/ucp_worker.c).
func (w *Worker) tellLanes(number int, chosen *proto.LaneConfig) {
	if w.ctx.log.Enabled(log.LevelInfo) {
		w.ctx.log.Info("ep_cfg["+strconv.Itoa(number)+"]: "+w.usedLanes(chosen), zap.String("worker", w.name))
	}
}

// usedLanes lists the lanes by feature, each once.
func (w *Worker) usedLanes(c *proto.LaneConfig) string {
	var parts []string
	for _, f := range []struct {
		name     string
		features Features
		lanes    [][]uint8
	}{
		{"tag", FeatureTag, [][]uint8{{c.AM}, c.AMBW, c.RMABW, {c.RkeyPtr}}},
		{"am", FeatureAM, [][]uint8{{c.AM}, c.AMBW, c.RMABW, {c.RkeyPtr}}},
		{"stream", FeatureStream, [][]uint8{{c.AM}, c.AMBW, c.RMABW}},
		{"rma", FeatureRMA, [][]uint8{c.RMA, c.RMABW}},
		{"amo", FeatureAMO32 | FeatureAMO64, [][]uint8{c.AMO}},
	} {
		if w.ctx.params.Features&f.features == 0 {
			continue
		}
		names := namesOf(c, f.lanes)
		if names == nil {
			names = namesOf(c, [][]uint8{{c.AM}}) // by messages
		}
		parts = append(parts, f.name+"("+strings.Join(names, " ")+")")
	}
	return strings.Join(parts, " ")
}

// namesOf lists the transports and devices of lanes, in the order of the lanes.
func namesOf(c *proto.LaneConfig, lists [][]uint8) (names []string) {
	for k := range c.Lanes {
		for _, list := range lists {
			if slices.Contains(list, uint8(k)) && c.Lanes[k].Local >= 0 {
				names = append(names, c.Lanes[k].Name)
				break
			}
		}
	}
	return names
}
