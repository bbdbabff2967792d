package ucp

import (
	"slices"

	"github.com/ucx-go/ucx/proto"
)

// laneMap says what the lanes of an endpoint are for, by the numbers that the
// selection gave them. Where the selection has no lane for a purpose the lane of
// messages serves it too, as far as it is able to.
type laneMap struct {
	am        uint8   // messages: one lane for all first packets keeps their order
	bandwidth []uint8 // the data of a rendezvous that is not copied, best first
}

// newLaneMap takes the purposes from a choice that has a lane for messages.
func newLaneMap(c *proto.LaneConfig) laneMap {
	list := func(lanes []uint8) []uint8 {
		if len(lanes) == 0 {
			return []uint8{c.AM}
		}
		return slices.Clone(lanes)
	}
	return laneMap{am: c.AM, bandwidth: list(c.RMABW)}
}
