package proto

import (
	"fmt"
	"math"
	"strings"
)

// Limits for spreading a message over lanes, as C's defaults.
const (
	// laneMaxRatio is the factor up to which a lane may be slower than the fastest lane;
	// slower lanes are dropped (UCX_MULTI_LANE_MAX_RATIO).
	laneMaxRatio = 4

	// minLaneChunk is the least number of bytes that is worth a separate lane
	// (UCX_MIN_RNDV_CHUNK_SIZE).
	minLaneChunk = 16 << 10

	// shareUnit is a whole message in the fixed-point shares of lanes.
	shareUnit = 1 << 16
)

// Spread holds the settings for spreading long messages over lanes. A zero field means C's
// default for a rendezvous.
type Spread struct {
	MaxRatio float64 // UCX_MULTI_LANE_MAX_RATIO
	MinChunk int     // UCX_MIN_RNDV_CHUNK_SIZE; for puts and gets UCX_MIN_RMA_CHUNK_SIZE
}

// sane fills in the defaults.
func (s Spread) sane() Spread {
	if !(s.MaxRatio > 0) {
		s.MaxRatio = laneMaxRatio
	}
	s.MaxRatio = math.Max(s.MaxRatio, 1) // the fastest lane stays
	if s.MinChunk <= 0 {
		s.MinChunk = minLaneChunk
	}
	return s
}

// LaneShares is the distribution of a long message over lanes.
type LaneShares struct {
	lanes []int    // index of each lane used, in the list passed to NewLaneShares
	ends  []uint32 // where the part of each lane ends, in units of 1/65536 of the message
	chunk int      // least number of bytes that is worth a separate lane
}

// NewLaneShares distributes messages over lanes in proportion to their bandwidths in bytes per
// second. It leaves out lanes that are slower than the fastest by more than spread.MaxRatio.
func NewLaneShares(bandwidths []float64, spread Spread) LaneShares {
	const absurd = 1e18 // bytes per second
	best := 0.0
	for _, b := range bandwidths {
		if b > best && b < absurd {
			best = b
		}
	}
	spread = spread.sane()
	s := LaneShares{chunk: spread.MinChunk}
	sum := 0.0
	for i, b := range bandwidths {
		if b > 0 && b < absurd && b*spread.MaxRatio >= best {
			s.lanes = append(s.lanes, i)
			sum += b
		}
	}
	at := 0.0
	for _, i := range s.lanes {
		at += bandwidths[i]
		s.ends = append(s.ends, uint32(math.Ceil(at/sum*shareUnit)))
	}
	return s
}

// Lanes returns the number of lanes used.
func (s *LaneShares) Lanes() int { return len(s.lanes) }

// Part returns the k-th lane, as an index of the list passed to NewLaneShares, and the range of
// bytes, [from, to), that the lane carries of a message of n bytes. The ranges are consecutive and
// cover the message; a message too short to be spread uses only the first lane. k must be less than
// Lanes().
func (s *LaneShares) Part(k, n int) (lane, from, to int) {
	if n/s.chunk < len(s.lanes) {
		if k == 0 {
			return s.lanes[0], 0, n
		}
		return s.lanes[k], n, n
	}
	if k > 0 {
		from = scale(s.ends[k-1], n)
	}
	to = n
	if k < len(s.ends)-1 {
		to = scale(s.ends[k], n)
	}
	return s.lanes[k], from, to
}

// scale returns share·n/65536 without overflow.
func scale(share uint32, n int) int {
	return n/shareUnit*int(share) + int(uint64(n%shareUnit)*uint64(share)/shareUnit)
}

// describe prints shares as ucx_info does: "52% on tcp/lo and 48% on tcp/eth0".
func (s *LaneShares) describe(name func(lane int) string) string {
	if len(s.lanes) == 1 {
		return name(s.lanes[0])
	}
	var b strings.Builder
	from := uint32(0)
	for k, lane := range s.lanes {
		switch {
		case k > 0 && k == len(s.lanes)-1:
			b.WriteString(" and ")
		case k > 0:
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d%% on %s", int(math.Round(float64(s.ends[k]-from)*100/shareUnit)), name(lane))
		from = s.ends[k]
	}
	return b.String()
}
