package ucp

import (
	"slices"

	"github.com/ucx-go/ucx/proto"
)

// A request names an end for each of the peer's lanes that is connected pairwise, and the
// peer gives up if one of them gets none of ours. Releases choose differently: C UCX 1.13
// keeps the lane of a connection manager beside a better one, we and 1.22 do not. So who
// answers has a lane for each end, whatever it needs, and none where the peer has no end.

// withEnds returns a choice with a lane without purpose added for each end that none of its
// own is for. An end that nothing of ours reaches is left out.
func (w *Worker) withEnds(chosen proto.LaneConfig, addr *proto.WorkerAddress, mode ErrMode, rules *laneRules) proto.LaneConfig {
	in := w.laneInput(addr, mode, rules)
	chosen.Lanes = slices.Clip(chosen.Lanes)
	addr.Ifaces(func(entry int, _ *proto.AddressDevice, _ *proto.AddressIface) bool {
		left := rules.numEnds(entry)
		for k := range chosen.Lanes {
			if chosen.Paired&(1<<k) != 0 && chosen.Lanes[k].Remote == entry {
				left--
			}
		}
		for ; left > 0 && len(chosen.Lanes) < proto.MaxLanes; left-- {
			local := w.pairedWith(in, entry, rules)
			if local < 0 {
				break
			}
			chosen.Paired |= 1 << len(chosen.Lanes)
			chosen.Lanes = append(chosen.Lanes, in.Lane(local, entry))
		}
		return true
	})
	return chosen
}

// pairedWith returns the interface for a lane to an entry where the peer has an end, that of
// a spare lane rather than another; -1 if none leads there.
func (w *Worker) pairedWith(in *proto.LaneInput, entry int, rules *laneRules) int {
	dev, f := in.Remote.Entry(entry)
	found := -1
	for k, i := range w.ifaces {
		if i.id != f.Transport || !in.Pairs(k) || in.Reachable(k, dev, f) != nil {
			continue
		}
		if rules.spareFor(i, in.Remote, entry, nil) >= 0 {
			return k
		}
		if found < 0 {
			found = k
		}
	}
	return found
}
