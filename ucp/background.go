package ucp

import (
	"context"
	"fmt"
	"time"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
)

// A worker with WorkerParams.Background has a background goroutine. While no other goroutine waits,
// it is the leader, the goroutine that progresses the worker (wait_leader.go): it sleeps on the
// event set, with a sleeper of its own, handles the events, and sleeps again, without spinning in
// between. A goroutine that waits becomes the leader in its place at the cost of two stores. The
// background goroutine leads again when no goroutine has waited for backgroundGrace
// (internal/engine/background.go), so frequent waits do not wake it each time.

const (
	// backgroundGrace is the time without a wait after which the background goroutine leads.
	// It bounds the delay of a reply to a peer after the last wait, and how often a process that
	// waits all the time sets a timer.
	backgroundGrace = time.Millisecond

	// backgroundInterval is the sleep between rounds while the worker has work that no event
	// reports, and backgroundRounds how many rounds run before the first such sleep.
	backgroundInterval = time.Millisecond
	backgroundRounds   = 64
)

// background is the state of the background goroutine; it is nil in workers without one.
type background struct {
	waiter  engine.Waiter
	w       *Worker
	round   func() int // Worker.round
	sleeper *event.Sleeper
	timer   *platform.Timer // signals the waiter after backgroundGrace
	ended   chan struct{}   // closed at the end of the goroutine
}

// checkBackground refuses a background goroutine for a worker that belongs to one goroutine.
func (p *WorkerParams) checkBackground() error {
	if p.Background && p.ThreadMode != ucs.ThreadModeMulti {
		return fmt.Errorf("ucp: WorkerParams.Background needs thread mode %v, the worker has %v: %w",
			ucs.ThreadModeMulti, p.ThreadMode, ucs.ErrInvalidParam)
	}
	return nil
}

// openBackground prepares the background goroutine. Its sleeper is made here, so that a later sleep
// cannot fail for lack of a descriptor.
func (w *Worker) openBackground() error {
	if !w.params.Background {
		return nil
	}
	s, err := event.NewSleeper(w.uctw.Events())
	if err != nil {
		return fmt.Errorf("ucp: the background goroutine of worker %s: %w", w.name, err)
	}
	b := &background{w: w, sleeper: s, ended: make(chan struct{})}
	b.timer = platform.AfterFunc(time.Hour, b.waiter.Signal)
	b.timer.Stop()
	w.owner.engine.Ready(&b.waiter, engine.Background)
	w.background = b
	return nil
}

// start starts the goroutine. The caller owns the worker. The parameter round runs a round of
// progress and returns the number of events handled.
func (b *background) start(round func() int) {
	if b != nil && !b.w.closed {
		b.round = round
		b.w.owner.engine.Join(&b.waiter)
		platform.Go(b.run)
	}
}

// close ends the sleep of the goroutine. The caller owns the worker, and is closing it.
func (b *background) close() {
	if b != nil {
		b.timer.Stop()
		b.sleeper.Close()
	}
}

// wait waits for the end of the goroutine after the worker is closed.
func (b *background) wait() {
	if b != nil && b.waiter.Over() {
		platform.Receive(b.ended)
	}
}

// run is the body of the goroutine. A callback of the application that panics in it ends the
// process, as in any goroutine; a callback that ends the goroutine makes the worker unusable.
func (b *background) run() {
	defer close(b.ended)
	w, t := b.w, &b.waiter
	for {
		w.owner.resume()
		if !t.Over() {
			w.owner.engine.Look(t)
			b.lead()
		}
		if t.Over() {
			w.owner.engine.Leave(t)
			w.owner.release()
			return
		}
		w.owner.release()
		if platform.Receive(t.Wake()); t.Gone() {
			return
		}
	}
}

// lead progresses the worker while no other goroutine waits. The caller owns the worker.
func (b *background) lead() {
	w, e, t := b.w, b.w.owner.engine, &b.waiter
	for idle := 0; t.Leads() && !t.Over(); {
		n := b.round()
		if idle++; n > 0 {
			e.News()
			idle = 0
		}
		e.AnnounceNews()
		if n == 0 && b.sleep(idle >= backgroundRounds) {
			continue
		}
		w.owner.release()
		platform.Yield()
		w.owner.resume()
	}
}

// sleep sleeps until the event set is readable, unless there is work, and reports whether it slept.
// With evenWithWork set it sleeps for backgroundInterval even if there is work. The caller owns the
// worker before and after; sleep releases it in between.
func (b *background) sleep(evenWithWork bool) bool {
	w, e := b.w, b.w.owner.engine
	err := w.wake.arm()
	e.AnnounceNews()
	if err != nil && evenWithWork {
		_, err = w.uctw.Timers().After(backgroundInterval, func() {})
	}
	if err != nil || b.waiter.Over() {
		return false
	}
	e.BackgroundSleeps()
	w.owner.pauseArmed()
	platform.Step()
	b.sleeper.Sleep(context.Background()) // until Close, at the latest
	platform.Step()
	w.owner.resume()
	e.BackgroundAwake(&b.waiter)
	return true
}

// Later implements engine.Host: it signals the background goroutine after backgroundGrace.
func (s *sleepers) Later() { s.background.timer.Reset(backgroundGrace) }
