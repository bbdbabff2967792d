//go:build linux

package main

import (
	"math"
	"testing"
)

func TestLatencies(t *testing.T) {
	// Eleven posts, ten intervals, without the two longest: round trips of 2 to 9 ticks of half
	// a microsecond.
	posted := []uint64{1000}
	for _, d := range []uint64{9, 3, 200, 2, 5, 4, 100, 7, 6, 8} {
		posted = append(posted, posted[len(posted)-1]+d)
	}
	got := latenciesOf(posted, 2, 2)
	want := latencies{least: 2. / 4, most: 100. / 4, typical: 5.5 / 4, average: 5.5 / 4, p99: 100. / 4, p999: 100. / 4}
	want.deviation = math.Sqrt(42./8) / 4
	if math.Abs(got.deviation-want.deviation) > 1e-9 {
		t.Errorf("deviation %v, want %v", got.deviation, want.deviation)
	}
	got.deviation = want.deviation
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	// The smallest number of iterations that is allowed.
	if got := latenciesOf([]uint64{0, 1, 3, 6, 10}, 1, 1); got.least != 1 || got.most != 3 || got.typical != 1.5 {
		t.Errorf("%+v", got)
	}
}

func TestPeak(t *testing.T) {
	posted := []uint64{0, 1, 2, 3, 4}
	for _, c := range []struct {
		list, cqMod int
		done        []uint64
		want        uint64
	}{
		{1, 1, []uint64{10, 20, 23, 40, 50}, 7}, // three from the first
		{1, 2, []uint64{0, 20, 0, 40, 100}, 10}, // the last was signaled out of turn
		{5, 5, []uint64{0, 0, 0, 0, 100}, 20},   // one list
		{1, 100, []uint64{0, 0, 0, 0, 104}, 20}, // one completion
		{1, 1, []uint64{0, 1, 2, 3, 4}, 1},      // too fast for the clock
		{2, 2, []uint64{0, 30, 0, 32, 1000}, 8}, // both lists
	} {
		if got := peak(posted, c.done, c.list, c.cqMod); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
