//go:build simulate

package simnet

import (
	"slices"
	"time"

	"github.com/ucx-go/ucx/internal/platform"
)

// The end of a program: each worker receives what comes until nothing is left, and closes everything.

// drain receives what comes until the world is quiet, and closes the worker.
func (g *goroutine) drain() {
	wk := g.wk
	l := wk.l
	start := l.w.now
	g.serve(platform.Never, func() bool {
		rest := l.w.now - max(start, l.idleAt, l.faultAt)
		switch {
		case !l.idle() || rest <= lossBound || l.j.quiet():
		case l.lossy && l.giveUp():
		case rest > timeBound:
			l.j.fail("not at an end %v after the last step: %s", timeBound, l.waits())
		}
		return l.j.quiet()
	})
	wk.leaving = true // the handler of a message that is lost, and comes after all, sends none
	l.tracef("worker %d: quiet", wk.number)
	if late := l.w.now - l.idleAt; l.j.err == nil && l.faultless() && l.p.Slow == 0 && late > quietBound && !l.background() {
		l.j.fail("the last message or operation ends only %v after the last step", late)
	}
	g.step = g.step[:0]
	wk.late = l.lossy && wk.proc.plan.uses("netshm")
	for _, o := range slices.Clone(wk.ops) {
		if !o.over && o.r != nil && !o.r.Done() {
			o.cancel()
		}
	}
	g.finish("canceled receives")
	wk.release()
	for k := range wk.links {
		g.close(k)
	}
	g.finish("closes")
	wk.giveHeld()
	wk.giveStreams()
	failures := wk.w.Stats().Failures
	// Endpoints that peers have opened go with those of the peers.
	g.barrier()
	if wk.listener != nil {
		g.closeAccepted()
	}
	g.serve(l.w.now+timeBound, func() bool { return wk.w.Stats().Endpoints == 0 })
	g.barrier()
	// A late message may have opened an endpoint for the answer that its own endpoint is gone, and the
	// library keeps a part of a message for a while after its connection has ended.
	g.serve(l.w.now+timeBound, func() bool { s := wk.w.Stats(); return s.Endpoints == 0 && s.UnexpectedBytes == 0 })
	if l.j.err != nil {
		return
	}
	wk.late = false
	g.finish("late receives")
	g.checkStats(failures)
	l.must(wk.w.Close(), "Worker.Close")
	wk.proc.over++
}

// serve progresses the worker, and receives what comes, until done returns true or until a time.
func (g *goroutine) serve(until time.Duration, done func() bool) {
	wk := g.wk
	l := wk.l
	for pause := time.Millisecond; ; {
		stirs, alone := wk.proc.stirs, wk.running == 0 // before the calls, in which another goroutine may end
		n := wk.w.Progress()
		n += wk.reap()
		n += g.take()
		n += wk.reap() // a call carries out what another goroutine has delegated
		if done() || l.j.err != nil || l.w.now >= until {
			return
		}
		if n > 0 {
			pause = time.Millisecond
			l.w.Yield()
			continue
		}
		changed := func() bool { return wk.proc.stirs != stirs }
		if p := wk.proc.plan; p.Background || p.Multi && !alone { // another goroutine may receive something
			g.wait(min(l.w.now+pause, until), changed)
			pause = min(2*pause, time.Second)
			continue
		}
		// A run without an end must not go unnoticed.
		g.waitAlone(min(l.w.now+2*quietBound, until), changed)
	}
}

// barrier waits until all workers have come to it.
func (g *goroutine) barrier() {
	l := g.wk.l
	g.wk.stage++
	stage := g.wk.stage
	missing := func() bool {
		return slices.ContainsFunc(l.workers, func(wk *worker) bool { return wk.stage < stage && !wk.dead })
	}
	if !missing() {
		l.w.stirAll()
	}
	g.serve(l.w.now+timeBound, func() bool { return !missing() })
	if missing() {
		l.j.fail("not all workers have come to an end: %s", l.waits())
	}
}

// idle reports whether all goroutines have carried out their steps.
func (l *load) idle() bool {
	return !slices.ContainsFunc(l.workers, func(wk *worker) bool { return wk.running > 0 })
}

// finish waits for all operations of the worker.
func (g *goroutine) finish(what string) {
	wk := g.wk
	done := func() bool {
		return !slices.ContainsFunc(wk.ops, func(o *op) bool { return !o.isDone() && !(wk.late && o.mayCancel) })
	}
	g.wait(wk.l.w.now+timeBound, done)
	if wk.l.j.err == nil && !done() {
		wk.l.j.fail("%s of worker %d do not end: %s", what, wk.number, wk.l.waits())
	}
	wk.reap()
}

// take receives a message that no receive has matched, and what else has come.
func (g *goroutine) take() (n int) {
	for {
		begin := g.wk.l.j.tick()
		m, ok := g.detach(0, 0)
		if !ok {
			break
		}
		n++
		g.receive(m, &drainStep, 0, 0, begin)
	}
	n += g.wk.am.take(g)
	for k := range g.wk.links {
		n += g.readStream(k)
	}
	return n
}

// drainStep is the step of operations of drain.
var drainStep = Step{Kind: "drain"}

// release gives back what the program holds of the worker.
func (wk *worker) release() { wk.am.release(wk) }

// checkStats checks the counters of a worker that is about to be closed. failures is the number of endpoints
// that had failed when the program had closed its own; later the last endpoints that peers have opened fail,
// because the peers are gone.
func (g *goroutine) checkStats(failures uint64) {
	s := g.wk.w.Stats()
	for _, c := range []struct {
		name string
		n    uint64
	}{
		{"Malformed", s.Malformed}, {"Evicted", s.Evicted}, {"Refused", s.Refused}, {"Abandoned", s.Abandoned},
		{"Failures", failures}, {"Denied", s.Denied}, {"AMNoHandler", s.AMNoHandler},
		{"UnexpectedBytes", uint64(s.UnexpectedBytes)}, {"OwedBytes", uint64(s.OwedBytes)},
		{"Endpoints", uint64(s.Endpoints)},
	} {
		if c.name == "Failures" && (g.wk.l.closes || g.wk.listener != nil) {
			continue // closed endpoints count that the library keeps, and those whose client has closed its own
		}
		if c.name == "Refused" && g.wk.l.p.Listen {
			continue // a late check of an endpoint whose peer, known by a connection manager only, cannot prove the token
		}
		strict := c.name == "UnexpectedBytes" || c.name == "OwedBytes" || c.name == "Endpoints" || c.name == "Malformed"
		if c.name == "Malformed" && slices.ContainsFunc(g.wk.l.processes, func(pr *process) bool { return pr.lies }) {
			continue
		}
		if c.n != 0 && (strict || g.wk.l.faultless()) {
			g.wk.l.j.fail("at the end %s of worker %d is %d", c.name, g.wk.number, c.n)
		}
	}
}
