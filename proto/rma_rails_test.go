package proto

import (
	"slices"
	"testing"
)

// TestRMARails: the lane of what is short comes first, then those that were chosen for what is
// long, the fastest first, and none that is much slower.
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
		{"the first is slow", []RMALane{lane(gb, 1e-6, true), lane(5*gb, 1e-3, true)}, 2, []int{0}},
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
			// What is short is not spread.
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
