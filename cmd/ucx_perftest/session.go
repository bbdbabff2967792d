package main

import (
	"fmt"

	"github.com/ucx-go/ucx/cmd/internal/perfoob"
	"github.com/ucx-go/ucx/cmd/internal/ticks"
	"github.com/ucx-go/ucx/ucs"
)

// runner carries out the stages of one test over one layer. It belongs to one
// goroutine.
type runner interface {
	// stage runs what the counter is prepared for, together with the other side.
	stage() error

	// progress is called while the other side is waited for.
	progress() int

	// finish ends the test together with the other side.
	finish() error

	// close releases everything. It is called once, after finish or instead.
	close() error
}

// runTest runs one test and prints its results.
func runTest(g group, p *perfoob.Params, out *printer) (err error) {
	c := new(counter)
	c.init(p, func(r *result) { out.line(r, false) })
	r, err := newRunner(g, p, c)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := r.close(); err == nil {
			err = closeErr
		}
	}()
	if err := warmUp(g, p, c, r); err != nil {
		return fmt.Errorf("warming up: %w", err)
	}
	span := uint64(forever)
	if p.MaxTime > 0 {
		span = ticks.FromSeconds(p.MaxTime)
	}
	c.prepare(p.Iters, span, ticks.FromSeconds(p.Interval))
	if err := r.stage(); err != nil {
		return err
	}
	if err := g.barrier(r.progress); err != nil {
		return err
	}
	result := c.result()
	out.line(&result, true)
	return r.finish()
}

func newRunner(g group, p *perfoob.Params, c *counter) (runner, error) {
	if p.Test.API == perfoob.UCT {
		return newUCT(g, p, c)
	}
	return newUCP(g, p, c)
}

// warmUp runs stages of doubling length until both sides have had enough time,
// or the iterations are used up (ucx_perf_do_warmup in lib/libperf.c).
func warmUp(g group, p *perfoob.Params, c *counter, r runner) error {
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
		peer, err := g.exchangeStatus(status)
		if err != nil {
			return err
		}
		if peer != ucs.OK {
			status = peer
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
