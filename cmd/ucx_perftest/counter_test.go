//go:build linux

package main

import (
	"math"
	"testing"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/internal/ticks"
)

// newCounter returns a counter for a test.
func newCounter(test string, size int, report func(*result)) *counter {
	p := defaultParams()
	p.Test, p.Sizes = perfoob.TestByName(test), []int{size}
	c := new(counter)
	c.init(&p, report)
	return c
}

// TestResult sets the times by hand: 4 iterations of 100 bytes, with the last report after the
// first iteration.
func TestResult(t *testing.T) {
	for _, tt := range []struct {
		test   string
		factor float64
	}{{"tag_bw", 1}, {"tag_lat", 2}} {
		t.Run(tt.test, func(t *testing.T) {
			c := newCounter(tt.test, 100, nil)
			c.prepare(4, forever, forever)
			second := ticks.FromSeconds(1)
			c.start, c.now = 0, 8*second
			c.iters = 4
			c.prev = mark{iters: 1, msgs: 1, time: 2 * second}
			c.ring = [ringSize]uint64{3 * second, second, 4 * second, 2 * second}
			r := c.result()
			for _, v := range []struct {
				name      string
				got, want float64
			}{
				{"iterations", float64(r.iters), 4},
				{"median", r.latency, 2 / tt.factor}, // the element at int(3 × 50 %)
				{"latency", r.latencyTotal, 2 / tt.factor},
				{"latency of late", r.latencyMoment, 2 / tt.factor},
				{"bandwidth", r.bandwidthTotal, 50 * tt.factor},
				{"bandwidth of late", r.bandwidthMoment, 50 * tt.factor},
				{"rate", r.rateTotal, 0.5 * tt.factor},
				{"rate of late", r.rateMoment, 0.5 * tt.factor},
			} {
				if math.Abs(v.got-v.want) > 1e-6*v.want {
					t.Errorf("%s is %v, want %v", v.name, v.got, v.want)
				}
			}
		})
	}
}

// TestSum: two threads of different speed have one line for both.
func TestSum(t *testing.T) {
	got := sum([]result{
		{iters: 10, latency: 7, latencyMoment: 7, latencyTotal: 1, bandwidthMoment: 7, bandwidthTotal: 30, rateMoment: 7, rateTotal: 3},
		{iters: 20, latency: 7, latencyMoment: 7, latencyTotal: 2, bandwidthMoment: 7, bandwidthTotal: 12, rateMoment: 7, rateTotal: 4},
	})
	if want := (result{iters: 10, latencyTotal: 1.5, bandwidthTotal: 42, rateTotal: 7}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestPercentile(t *testing.T) {
	c := newCounter("tag_bw", 8, nil)
	c.prepare(forever, forever, forever)
	if got := c.percentile(); got != 0 {
		t.Errorf("of nothing: %d", got)
	}
	c.iters = 101
	for i := range 101 {
		c.ring[i] = uint64((i * 37) % 101) // 0 to 100, shuffled
	}
	for rank, want := range map[float64]uint64{0: 0, 1: 1, 50: 50, 99.5: 99, 100: 100} {
		c.rank = rank
		if got := c.percentile(); got != want {
			t.Errorf("rank %v: %d, want %d", rank, got, want)
		}
	}
	before := c.ring
	c.iters = 10 * ringSize // the ring was filled several times
	c.rank = 100
	if got := c.percentile(); got != 100 {
		t.Errorf("of the whole ring: %d, want 100", got)
	}
	if c.ring != before {
		t.Error("looking changed the ring")
	}
}

// TestReports makes a report due at every update: there must be none after the last iteration,
// which has the final report.
func TestReports(t *testing.T) {
	var seen []uint64
	c := newCounter("tag_bw", 8, func(r *result) { seen = append(seen, r.iters) })
	c.prepare(3, forever, 0)
	for !c.done() {
		c.update()
	}
	if len(seen) != 2 || seen[0] != 1 || seen[1] != 2 {
		t.Errorf("reports at iterations %v, want 1 and 2", seen)
	}
	if c.prev.iters != 2 {
		t.Errorf("last report at %d, want 2", c.prev.iters)
	}
	c.prepare(2, forever, forever)
	if c.iters != 0 || c.prev.iters != 0 || c.ring[0] != 0 {
		t.Error("the counter is not reset")
	}
}

func TestDone(t *testing.T) {
	c := newCounter("tag_bw", 8, nil)
	c.prepare(0, forever, forever)
	c.iters = math.MaxUint64 - 1
	if c.done() {
		t.Error("0 iterations came to an end")
	}
	c.prepare(0, 1, forever)
	for !c.done() { // one tick
		c.update()
	}
	if c.iters == 0 {
		t.Error("over before it began")
	}
	c.prepare(1, forever-1, forever) // a time limit past the end of the clock
	if c.end < c.start {
		t.Error("the time limit wrapped")
	}
}

func BenchmarkUpdate(b *testing.B) {
	c := newCounter("tag_bw", 8, nil)
	c.prepare(0, forever, forever)
	for range b.N {
		c.update()
	}
}
