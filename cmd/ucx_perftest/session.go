//go:build linux

package main

import (
	"fmt"

	"github.com/ucx-go/ucx/cmd/ucx_perftest/internal/perfoob"
	"github.com/ucx-go/ucx/internal/ticks"
	"github.com/ucx-go/ucx/ucs"
)

// setup is a test over UCP or UCT that is set up on this side.
type setup interface {
	// thread returns the runner for the test's stages on a thread.
	thread(id int) runner

	// finish ends the test in step with the other side.
	finish() error

	// close releases all resources. It is called once, after finish or instead of it.
	close() error
}

// runner runs the stages of a test on one thread. It belongs to one goroutine.
type runner interface {
	// stage runs the stage for which the counter is prepared, in step with the other side.
	stage() error

	// progress is called while the thread waits for other threads or for the other side.
	progress() int
}

// runTest runs one test and prints its results.
func runTest(g group, p *params, out *printer) (err error) {
	out.ignored(p)
	t := newTeam(g, int(p.Threads))
	counters := newCounters(p, out.line)
	s, err := newSetup(t, p, counters)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := s.close(); err == nil {
			err = closeErr
		}
	}()
	results := make([]result, t.size)
	if err := t.run(func(id int) (err error) {
		results[id], err = runThread(t.member(id), p, counters[id], s.thread(id))
		return err
	}); err != nil {
		return err
	}
	out.result(results)
	return s.finish()
}

func newSetup(t *team, p *params, counters []*counter) (setup, error) {
	if p.Test.API == perfoob.UCT {
		return newUCT(t.member(0), p, counters[0])
	}
	return newUCP(t, p, counters)
}

// runThread runs one thread's part of a test.
func runThread(g group, p *params, c *counter, r runner) (result, error) {
	if err := warmUp(g, p, c, r); err != nil {
		return result{}, fmt.Errorf("warming up: %w", err)
	}
	span := uint64(forever)
	if p.MaxTime > 0 {
		span = ticks.FromSeconds(p.MaxTime)
	}
	c.prepare(p.Iters, span, ticks.FromSeconds(p.Interval))
	if err := r.stage(); err != nil {
		return result{}, err
	}
	if err := g.barrier(r.progress); err != nil {
		return result{}, err
	}
	return c.result(), nil
}

// warmUp runs stages of doubling length until both sides have reached the warm-up time or the
// number of warm-up iterations (ucx_perf_do_warmup in lib/libperf.c).
func warmUp(g group, p *params, c *counter, r runner) error {
	deadline := ticks.Now() + ticks.FromSeconds(p.WarmupTime)
	if deadline < ticks.FromSeconds(p.WarmupTime) {
		deadline = forever
	}
	for n, total := uint64(1), uint64(0); total < p.WarmupIters; n *= 2 {
		c.prepare(n, forever, forever)
		if err := r.stage(); err != nil {
			return err
		}
		if err := g.barrier(r.progress); err != nil {
			return err
		}
		status := ucs.InProgress
		if ticks.Now() > deadline {
			status = ucs.OK
		}
		status, err := g.exchangeStatus(status)
		if err != nil {
			return err
		}
		if status.IsError() {
			return fmt.Errorf("the other side failed: %w", status)
		}
		if status == ucs.OK {
			return nil
		}
		total += n
	}
	return nil
}
