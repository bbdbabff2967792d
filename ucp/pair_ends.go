package ucp

import (
	"slices"

	"github.com/ucx-go/ucx/proto"
)

// A request names an end for each of the peer's lanes that is connected pairwise, and the
// peer gives up if one of them gets none of ours. Releases choose differently: C UCX 1.13
// keeps the lane of a connection manager beside a better one, we and 1.22 do not. So who
// answers keeps a lane that the peer has kept, whether he needs it or not, and makes none
// where the peer has no end.

// withKept returns a choice with a lane without purpose added for each spare one that is
// connected with an end in the address and that the choice has no use for.
func (w *Worker) withKept(chosen proto.LaneConfig, addr *proto.WorkerAddress, mode ErrMode, rules *laneRules) proto.LaneConfig {
	in := w.laneInput(addr, mode, rules)
	chosen.Lanes = slices.Clip(chosen.Lanes)
	for k := range rules.spare {
		s := &rules.spare[k]
		local, entry := slices.Index(w.ifaces, s.iface), rules.entryOf(s)
		if entry < 0 || len(chosen.Lanes) == proto.MaxLanes ||
			slices.ContainsFunc(chosen.Lanes, func(l proto.Lane) bool { return l.Local == local && l.Remote == entry }) {
			continue
		}
		chosen.Paired |= 1 << len(chosen.Lanes)
		chosen.Lanes = append(chosen.Lanes, in.Lane(local, entry))
	}
	return chosen
}
