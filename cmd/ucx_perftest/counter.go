//go:build linux

package main

import (
	"math"
	"slices"

	"github.com/ucx-go/ucx/cmd/internal/perfoob"
	"github.com/ucx-go/ucx/cmd/internal/ticks"
)

// ringSize is the number of last iterations that the percentile is taken from
// (TIMING_QUEUE_SIZE in lib/libperf_int.h).
const ringSize = 2048

// counter counts and times the iterations of one stage. The loops call done and
// update once per iteration; both are short and allocate nothing.
type counter struct {
	max      uint64 // iterations
	end      uint64 // time when the stage is over
	interval uint64 // ticks between reports
	span     uint64 // ticks the stage may last
	spin     uint64 // ticks to wait busily for an iteration
	turn     uint64 // ticks after which other goroutines may run in any case
	sole     bool   // the test has no other thread

	iters  uint64
	extra  uint64 // messages that are no iteration
	yields uint64 // times that others were let run
	now    uint64 // time of the last update
	late   uint64 // now, when it is longer ago than spin
	rounds uint64 // of work
	turnBy uint64 // end of the turn

	start uint64
	prev  mark // the last report
	ring  [ringSize]uint64

	info    string // about the operation
	bytes   int    // of one iteration
	factor  float64
	rank    float64 // percentile to report
	report  func(*result)
	scratch [ringSize]uint64
}

// mark is the state at a report.
type mark struct {
	iters, msgs, time uint64
}

// newCounters makes a counter for each thread. report is called with the number
// of a thread and its intermediate results, by the thread.
func newCounters(p *params, report func(id int, r *result)) []*counter {
	list := make([]*counter, p.Threads)
	for id := range list {
		list[id] = new(counter)
		list[id].init(p, func(r *result) { report(id, r) })
	}
	return list
}

// init prepares for the stages of one test. report is called with intermediate
// results of the main stage.
func (c *counter) init(p *params, report func(*result)) {
	c.bytes = p.MessageSize()
	c.rank = p.Percentile
	c.spin = ticks.FromSeconds(spinTime)
	c.turn = ticks.FromSeconds(turnTime)
	c.sole = p.Threads <= 1
	c.factor = 1
	if p.Test.Type == perfoob.PingPong {
		c.factor = 2 // an iteration is two messages
	}
	c.report = report
}

// prepare resets the counter for a stage of n iterations (0: no end) in span
// ticks at most, with reports at an interval of ticks.
func (c *counter) prepare(n, span, interval uint64) {
	if n == 0 {
		n = math.MaxUint64
	}
	c.max, c.span, c.interval = n, span, interval
	c.iters, c.extra = 0, 0
	c.ring = [ringSize]uint64{}
	c.begin()
}

// forever is a span that does not end, and an interval that does not come.
const forever = math.MaxUint64

// begin starts the clock.
func (c *counter) begin() {
	c.start = ticks.Now()
	c.now = c.start
	c.prev = mark{time: c.start}
	if c.end = c.start + c.span; c.end < c.start {
		c.end = math.MaxUint64
	}
}

// done reports whether the stage has come to its end.
func (c *counter) done() bool { return c.iters >= c.max || c.now > c.end }

// update counts one iteration.
func (c *counter) update() {
	now := ticks.Now()
	c.ring[c.iters%ringSize] = now - c.now
	c.iters++
	c.now = now
	c.takeTurns(now)
	if now-c.prev.time >= c.interval && c.iters < c.max {
		c.intermediate()
	}
}

// count counts n iterations, of which none is timed.
func (c *counter) count(n uint64) {
	c.iters += n
	c.now = ticks.Now()
	c.takeTurns(c.now)
}

//go:noinline
func (c *counter) intermediate() {
	r := c.result()
	c.report(&r)
	c.prev = mark{iters: c.iters, msgs: c.iters + c.extra, time: c.now}
}

// stop takes the time of the stage's end, after what was in flight has landed.
func (c *counter) stop() { c.now = ticks.Now() }

// result are the columns of a report; times in seconds, sizes in bytes. moment
// means since the last report.
type result struct {
	iters                                uint64
	latency, latencyMoment, latencyTotal float64
	bandwidthMoment, bandwidthTotal      float64
	rateMoment, rateTotal                float64
	info                                 string
}

// result computes the columns as ucx_perf_calc_result does (lib/libperf.c): the
// percentile over the last iterations, the rest as averages.
func (c *counter) result() result {
	total, moment := ticks.Seconds(c.now-c.start), ticks.Seconds(c.now-c.prev.time)
	iters, fresh := float64(c.iters), float64(c.iters-c.prev.iters)
	msgs := c.iters + c.extra
	bytes := float64(c.bytes)
	return result{
		iters:           c.iters,
		latency:         ticks.Seconds(c.percentile()) / c.factor,
		latencyMoment:   moment / fresh / c.factor,
		latencyTotal:    total / iters / c.factor,
		bandwidthMoment: fresh * bytes / moment * c.factor,
		bandwidthTotal:  iters * bytes / total * c.factor,
		rateMoment:      float64(msgs-c.prev.msgs) / moment * c.factor,
		rateTotal:       float64(msgs) / total * c.factor,
		info:            c.info,
	}
}

// percentile returns the iteration time of the wanted rank, in ticks.
func (c *counter) percentile() uint64 {
	n := int(min(c.iters, ringSize))
	if n == 0 {
		return 0
	}
	times := c.scratch[:n]
	copy(times, c.ring[:n])
	slices.Sort(times)
	return times[int(float64(n-1)*(c.rank/100))]
}

// sum is the result of several threads together, as C's tool has it
// (ucx_perf_thread_report_aggregated_results in lib/libperf_thread.c): what they
// achieve adds up, latency is the mean, and iterations are those of one.
func sum(list []result) result {
	all := result{iters: list[0].iters}
	for i := range list {
		all.latencyTotal += list[i].latencyTotal / float64(len(list))
		all.bandwidthTotal += list[i].bandwidthTotal
		all.rateTotal += list[i].rateTotal
	}
	return all
}
