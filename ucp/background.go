package ucp

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
)

// A worker with WorkerParams.Background has a goroutine that leads (lead.go) while no other
// one waits: it sleeps on the event set, by a sleeper of its own, handles what comes, and
// sleeps again, without spinning in between. A goroutine that waits takes the lead from it
// at no cost but two stores, and it gets the lead back when nobody has waited for
// backgroundGrace (internal/engine/background.go), so goroutines that wait often do not
// wake it each time.

const (
	// backgroundGrace is how long nobody waits before the background goroutine leads. It
	// bounds what a peer waits for an answer at the end of a wait here, and how often a
	// process that waits all the time pays for a timer.
	backgroundGrace = time.Millisecond

	// backgroundNap is the rest between rounds where something is to be done that no event
	// tells of, and backgroundRounds how many rounds go before the first one.
	backgroundNap    = time.Millisecond
	backgroundRounds = 64
)

// background is that goroutine, nil in workers without.
type background struct {
	waiter  engine.Waiter
	w       *Worker
	round   func() int // Worker.round
	sleeper *event.Sleeper
	timer   *time.Timer   // signals the waiter
	ended   chan struct{} // closed at the end of the goroutine
}

// checkBackground refuses background goroutines of workers that belong to one goroutine.
func (p *WorkerParams) checkBackground() error {
	if p.Background && p.ThreadMode != ucs.ThreadModeMulti {
		return fmt.Errorf("ucp: WorkerParams.Background takes %v, as its goroutine uses the worker beside the caller's; the thread mode is %v: %w",
			ucs.ThreadModeMulti, p.ThreadMode, ucs.ErrInvalidParam)
	}
	return nil
}

// openBackground prepares the goroutine, so that its sleep cannot fail for want of a
// descriptor.
func (w *Worker) openBackground() error {
	if !w.params.Background {
		return nil
	}
	s, err := event.NewSleeper(w.uctw.Events())
	if err != nil {
		return fmt.Errorf("ucp: the background goroutine of worker %s: %w", w.name, err)
	}
	b := &background{w: w, sleeper: s, ended: make(chan struct{})}
	b.timer = time.AfterFunc(time.Hour, b.waiter.Signal)
	b.timer.Stop()
	b.waiter.Ready(engine.Background)
	w.background = b
	return nil
}

// start starts it, in a turn. round is a round of progress.
func (b *background) start(round func() int) {
	if b != nil && !b.w.closed {
		b.round = round
		b.w.engine.Join(&b.waiter)
		go b.run()
	}
}

// close ends its sleep, in the turn in which the worker is closed.
func (b *background) close() {
	if b != nil {
		b.timer.Stop()
		b.sleeper.Close()
	}
}

// wait waits for the end of the goroutine, after the worker is closed.
func (b *background) wait() {
	if b != nil && b.waiter.Over() {
		<-b.ended
	}
}

// run is the goroutine. A callback of the application that panics on it ends the process,
// as it does on any goroutine; one that ends the goroutine has made the worker unusable.
func (b *background) run() {
	defer close(b.ended)
	w, t := b.w, &b.waiter
	for {
		w.awaitTurn()
		if !t.Over() {
			w.engine.Look(t)
			b.lead()
		}
		if t.Over() {
			w.engine.Leave(t)
			w.endTurn()
			return
		}
		w.endTurn()
		if <-t.Wake(); t.Gone() {
			return
		}
	}
}

// lead progresses the worker while nobody else waits. It begins and ends in a turn.
func (b *background) lead() {
	w, e, t := b.w, b.w.engine, &b.waiter
	for idle := 0; t.Leads() && !t.Over(); {
		n := b.round()
		if idle++; n > 0 {
			e.News()
			idle = 0
		}
		e.Tell()
		if n == 0 && b.sleep(idle >= backgroundRounds) {
			continue
		}
		w.endTurn()
		runtime.Gosched()
		w.awaitTurn()
	}
}

// sleep sleeps until the event set is readable, unless there is something to do, and
// reports whether it did. Where nap is set it sleeps nevertheless, for a while. It begins and
// ends in a turn, and sleeps in none.
func (b *background) sleep(nap bool) bool {
	w, e := b.w, b.w.engine
	err := w.arm()
	e.Tell()
	if err != nil && nap {
		_, err = w.uctw.Timers().After(backgroundNap, func() {})
	}
	if err != nil || b.waiter.Over() {
		return false
	}
	e.Dozes()
	w.gate &^= gateInside
	w.passOn()
	b.sleeper.Sleep(context.Background()) // until Close, at the latest
	w.awaitTurn()
	e.Back(&b.waiter)
	return true
}

// Later implements engine.Host.
func (s *sleepers) Later() { s.background.timer.Reset(backgroundGrace) }
