package proto

import (
	"math"
	"slices"
	"testing"
)

// TestRMARails checks which lanes carry a long transfer: those chosen for long transfers, the
// fastest first, and none that is much slower. A single lane carries short transfers.
func TestRMARails(t *testing.T) {
	lane := func(bandwidth, latency float64, wide bool) RMALane {
		return RMALane{Perf: LanePerf{Name: "lane", Bandwidth: bandwidth, Latency: latency}, PutZcopy: 1 << 30, GetZcopy: 1 << 30, MinGetZcopy: 65, Wide: wide}
	}
	const gb = 1 << 30
	for _, c := range []struct {
		name  string
		lanes []RMALane
		rails int
		want  []int
	}{
		{"one by default", []RMALane{lane(gb, 1e-6, true), lane(gb, 1e-6, true)}, 0, []int{0}},
		{"two", []RMALane{lane(gb, 1e-6, true), lane(gb, 1e-6, true)}, 2, []int{0, 1}},
		{"more than there are", []RMALane{lane(gb, 1e-6, true), lane(gb, 1e-6, true)}, 9, []int{0, 1}},
		{"the fastest", []RMALane{lane(gb, 1e-6, true), lane(gb, 1e-5, true), lane(2*gb, 1e-4, true)}, 2, []int{0, 2}},
		{"a slow one", []RMALane{lane(gb, 1e-6, true), lane(gb/5, 1e-6, true)}, 2, []int{0}},
		{"one for what is short", []RMALane{lane(gb, 1e-6, true), lane(gb, 1e-6, false)}, 2, []int{0}},
		{"not the one for what is short", []RMALane{lane(gb, 1e-7, false), lane(gb, 1e-6, true), lane(gb, 1e-6, true)}, 2, []int{1, 2}},
		{"one for what is long", []RMALane{lane(gb, 1e-7, false), lane(gb, 1e-6, true)}, 2, []int{1}},
		{"any by default", []RMALane{lane(gb, 1e-7, false), lane(gb, 1e-6, true)}, 1, []int{0}},
		{"none for what is long", []RMALane{lane(gb, 1e-7, false), lane(gb, 1e-6, false)}, 2, []int{0}},
		{"the first is slow", []RMALane{lane(gb, 1e-6, true), lane(5*gb, 1e-3, true)}, 2, []int{1}},
		{"the first is slow and two are fast", []RMALane{lane(gb, 1e-6, true), lane(5*gb, 1e-3, true), lane(6*gb, 1e-3, true)}, 2, []int{2, 1}},
		{"the first is slow, one by default", []RMALane{lane(gb, 1e-6, true), lane(5*gb, 1e-3, false)}, 0, []int{1}},
		{"the fast one is for what is short", []RMALane{lane(gb, 1e-6, true), lane(5*gb, 1e-3, false)}, 2, []int{0}},
		{"absurd", []RMALane{lane(1e300, 1e-6, true), lane(1e300, 1e-6, true)}, 2, []int{0, 1}},
	} {
		in := RMAInput{Lanes: c.lanes, Settings: DefaultProtoSettings(), Rails: c.rails, Spread: Spread{MinChunk: 8 << 10}}
		tables := NewRMATables(&in)
		for name, s := range map[string]*LaneShares{"put": tables.PutRails(), "get": tables.GetRails()} {
			var got []int
			end := 0
			for k := range s.Lanes() {
				i, from, to := s.Part(k, 1<<20)
				if from != end || to <= from {
					t.Errorf("%s, %s: part %d is from %d to %d", c.name, name, k, from, to)
				}
				got, end = append(got, i), to
			}
			if !slices.Equal(got, c.want) || end != 1<<20 {
				t.Errorf("%s, %s: lanes %v up to %d, want %v", c.name, name, got, end, c.want)
			}
			// A short transfer is not striped.
			if i, from, to := s.Part(0, 8<<10); i != c.want[0] || from != 0 || to != 8<<10 {
				t.Errorf("%s, %s: short: lane %d from %d to %d", c.name, name, i, from, to)
			}
		}
	}
	none := NewRMATables(&RMAInput{Settings: DefaultProtoSettings(), Rails: 2})
	if none.PutRails().Lanes() != 0 {
		t.Error("rails without lanes")
	}
}

// TestRMARailsChunk checks from which length transfers are striped: the part of each lane must be
// worth it and at least the lane's minimum. The limit on the ratio of bandwidths does not matter
// for equal lanes.
func TestRMARailsChunk(t *testing.T) {
	const gb = 1 << 30
	for _, c := range []struct {
		name        string
		ratio, slow float64
		least       int
		spread      int // length from which a transfer is striped
	}{
		{"worth it", 4, 1, 65, 16 << 10},
		{"any ratio", math.Inf(1), 1, 65, 16 << 10},
		{"large parts", 4, 1, 10_000, 20_000},
		{"large parts of unequal lanes", 4, 2, 10_000, 40_000},
		{"a very slow lane", math.Inf(1), 1000, 65, 130_000},
	} {
		var in RMAInput
		for _, b := range []float64{gb, gb / c.slow} {
			in.Lanes = append(in.Lanes, RMALane{Perf: LanePerf{Name: "lane", Bandwidth: b}, PutZcopy: 1 << 30, GetZcopy: 1 << 30, MinPutZcopy: c.least, MinGetZcopy: c.least, Wide: true})
		}
		in.Settings, in.Rails, in.Spread = DefaultProtoSettings(), 2, Spread{MaxRatio: c.ratio, MinChunk: 8 << 10}
		tables := NewRMATables(&in)
		for name, s := range map[string]*LaneShares{"put": tables.PutRails(), "get": tables.GetRails()} {
			if s.Lanes() != 2 {
				t.Errorf("%s, %s: %d lanes", c.name, name, s.Lanes())
				continue
			}
			if _, from, to := s.Part(0, c.spread-2); from != 0 || to != c.spread-2 {
				t.Errorf("%s, %s: %d bytes are spread, %d to %d", c.name, name, c.spread-2, from, to)
			}
			if _, _, to := s.Part(0, c.spread); to >= c.spread {
				t.Errorf("%s, %s: %d bytes are not spread", c.name, name, c.spread)
			}
		}
	}
}
