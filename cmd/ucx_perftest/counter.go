//go:build linux

package main

import (
	"math"
	"slices"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/internal/ticks"
)

// ringSize is the number of latest iterations from which the percentile is computed
// (TIMING_QUEUE_SIZE in lib/libperf_int.h).
const ringSize = 2048

// counter counts and times the iterations of one stage. The loops call done and
// update once per iteration; both are short and allocate nothing.
type counter struct {
	max        uint64 // largest number of iterations
	end        uint64 // time at which the stage ends
	interval   uint64 // ticks between reports
	span       uint64 // ticks that the stage may last
	spin       uint64 // ticks to busy-wait for an iteration
	yieldTicks uint64 // ticks after which this goroutine yields to others even if it is busy
	sole       bool   // the test has no other thread on this side

	iters   uint64
	extra   uint64 // messages that are not iterations
	yields  uint64 // the number of times that other processes were allowed to run
	now     uint64 // time of the last update
	late    uint64 // the value of now for which the spin time is known to be over
	rounds  uint64 // rounds that did work
	yieldAt uint64 // time of the next yield to other goroutines

	start uint64
	prev  mark // the state at the last report
	ring  [ringSize]uint64

	info    string // the library's description of the operation
	bytes   int    // bytes of one iteration
	factor  float64
	rank    float64 // percentile to report
	report  func(*result)
	scratch [ringSize]uint64
}

// mark is the state of a counter at a report.
type mark struct {
	iters, msgs, time uint64
}

// newCounters makes a counter for each thread. Each thread calls report with its number and its
// intermediate results.
func newCounters(p *params, report func(id int, r *result)) []*counter {
	list := make([]*counter, p.Threads)
	for id := range list {
		list[id] = new(counter)
		list[id].init(p, func(r *result) { report(id, r) })
	}
	return list
}

// init prepares the counter for the stages of one test. It calls report with intermediate results
// of the main stage.
func (c *counter) init(p *params, report func(*result)) {
	c.bytes = p.MessageSize()
	c.rank = p.Percentile
	c.spin = ticks.FromSeconds(spinTime)
	c.yieldTicks = ticks.FromSeconds(yieldAfter)
	c.sole = p.Threads <= 1
	c.factor = 1
	if p.Test.Type == perfoob.PingPong {
		c.factor = 2 // an iteration is two messages
	}
	c.report = report
}

// prepare resets the counter for a stage of n iterations (0: no limit) and of at most span ticks,
// with reports every interval ticks.
func (c *counter) prepare(n, span, interval uint64) {
	if n == 0 {
		n = math.MaxUint64
	}
	c.max, c.span, c.interval = n, span, interval
	c.iters, c.extra = 0, 0
	c.ring = [ringSize]uint64{}
	c.begin()
}

// forever is a span that does not end, and an interval without reports.
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

// done reports whether the stage has ended.
func (c *counter) done() bool { return c.iters >= c.max || c.now > c.end }

// update counts one iteration.
func (c *counter) update() {
	now := ticks.Now()
	c.ring[c.iters%ringSize] = now - c.now
	c.iters++
	c.now = now
	c.yieldIfDue(now)
	if now-c.prev.time >= c.interval && c.iters < c.max {
		c.intermediate()
	}
}

// count counts n iterations without timing each.
func (c *counter) count(n uint64) {
	c.iters += n
	c.now = ticks.Now()
	c.yieldIfDue(c.now)
}

//go:noinline
func (c *counter) intermediate() {
	r := c.result()
	c.report(&r)
	c.prev = mark{iters: c.iters, msgs: c.iters + c.extra, time: c.now}
}

// stop records the end of the stage, after all outstanding operations have completed.
func (c *counter) stop() { c.now = ticks.Now() }

// result holds the columns of a report; times in seconds, sizes in bytes. The moment fields cover
// the time since the last report.
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

// percentile returns the iteration time of the configured rank, in ticks.
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

// sum combines the results of several threads as C's tool does
// (ucx_perf_thread_report_aggregated_results in lib/libperf_thread.c): bandwidths and rates add up,
// latency is the mean, and iterations are those of one thread.
func sum(list []result) result {
	all := result{iters: list[0].iters}
	for i := range list {
		all.latencyTotal += list[i].latencyTotal / float64(len(list))
		all.bandwidthTotal += list[i].bandwidthTotal
		all.rateTotal += list[i].rateTotal
	}
	return all
}
