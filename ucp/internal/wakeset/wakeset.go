// Package wakeset lets goroutines sleep until a worker has something to do, and wakes them.
//
// A worker's transports report what happens through one event set (ucs/event), whose descriptor is
// readable when something has happened. A Set adds to that event set a bell (event.Bell), with
// which Signal wakes the worker from any goroutine, and remembers each signal until the worker's
// owner consumes it (Consume). A goroutine that waits inside a call sleeps in Park. An application
// that polls by itself sleeps on the descriptor that FD returns.
//
// In thread mode multi the event set alone is not enough for an application that polls: another
// goroutine can progress the worker in between, and take the event before the application has seen
// it. In this mode FD returns the descriptor of a poller, an epoll set of the event set and an
// eventfd. Ring makes it readable, and it stays readable until the application is awake (Return).
//
// Package ucp arms the event set before a goroutine sleeps, because the arming depends on the state
// of operations. The model in package engine's tests explores the order of arming, signals and
// sleeps.
//
// Signal, Rouse, Park and Close synchronize with each other. Any goroutine may call Signal,
// Signaled and Rouse. All other methods are for the owner of the worker.
package wakeset

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
)

// Errors of a set whose worker is closed.
var (
	ErrSignal = fmt.Errorf("ucp: Signal on a worker that is closed: %w", ucs.ErrInvalidParam)
	ErrClosed = fmt.Errorf("ucp: the worker was closed: %w", ucs.ErrCanceled)
)

// Set puts goroutines of one worker to sleep and wakes them. The zero Set is closed.
type Set struct {
	signaled atomic.Bool // there was a Signal that the owner has not consumed

	mu      sync.Mutex
	bell    *event.Bell    // rung by Signal; guarded by mu, nil when closed
	sleeper *event.Sleeper // guarded by mu, nil before the first sleep

	events *event.Set
	Engine *engine.Engine // nil except in thread mode multi
	poller *poller        // nil unless an application polls in thread mode multi
}

// Open adds the bell to the worker's event set. The engine is nil except in thread mode multi. The
// parameter polled says that the application will poll the descriptor that FD returns.
func (s *Set) Open(events *event.Set, e *engine.Engine, polled bool) (err error) {
	s.events, s.Engine = events, e
	if s.bell, err = event.NewBell(events, s); err != nil {
		return fmt.Errorf("ucp: %w", err)
	}
	if e != nil && polled {
		s.poller, err = newPoller(events.FD())
	}
	return err
}

// Close ends the set: Signal and Park return errors from now on. The parameter asleep says that the
// application may be asleep on the descriptor that FD returns. Then the descriptor stays readable
// and open until Return, or until the garbage collector finds that nothing refers to the set.
func (s *Set) Close(asleep bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bell != nil {
		s.bell.Close()
		s.bell = nil
	}
	if s.sleeper != nil {
		s.sleeper.Close()
		s.sleeper = nil
	}
	switch p := s.poller; {
	case p == nil:
	case p.rung && asleep:
		p.outlive()
	default:
		p.close()
		s.poller = nil
	}
}

// HandleEvent implements event.Handler for the bell: it clears the bell, so that the event set is
// no longer readable because of the bell. A signal is still remembered until Consume.
func (s *Set) HandleEvent(event.Events) {
	s.bell.Clear() // no effect if Consume has cleared it already
	if s.Engine != nil {
		s.Engine.RouseDone()
	}
}

// FD returns the descriptor that an application sleeps on.
func (s *Set) FD() int {
	if s.poller != nil {
		return s.poller.set
	}
	return s.events.FD()
}

// Signal wakes the worker: the descriptor becomes readable. Any goroutine may call it. It returns
// ErrSignal if the worker is closed.
func (s *Set) Signal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bell == nil {
		return ErrSignal
	}
	s.signaled.Store(true) // [signal]
	return s.bell.Ring()
}

// Signaled reports whether there was a Signal since the last Consume. Any goroutine may call it.
func (s *Set) Signaled() bool { return s.signaled.Load() }

// Consume reports whether there was a Signal since the last Consume. In thread mode multi only
// calls of the application use it. The leader (engine.Engine), which sleeps for all waiting
// goroutines, is woken through the descriptor, and must not consume a signal that the application
// is about to check for.
func (s *Set) Consume() bool {
	if !s.signaled.Swap(false) { // [consume]
		return false
	}
	s.HandleEvent(event.Read)
	if s.Engine != nil {
		s.Engine.News()
	}
	return true
}

// Rouse wakes the goroutine that sleeps in Park: it rings the bell, but records no signal for the
// application. Any goroutine may call it.
func (s *Set) Rouse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bell != nil {
		s.bell.Ring()
	}
}

// Ring makes the descriptor that FD returns readable, for an application that polls in thread mode
// multi.
func (s *Set) Ring() {
	if s.poller != nil {
		s.poller.ring()
	}
}

// Return records that the application is awake, and ends the effect of Ring. If the set is closed,
// Return closes the descriptor that Close has left open.
func (s *Set) Return() {
	p := s.poller
	if p == nil || !p.rung {
		return
	}
	p.answer()         // [answer]
	if s.bell == nil { // the worker is closed
		p.close()
		s.poller = nil
	}
}

// Park sleeps until something may be ready in the armed event set. It returns an error if ctx ends
// or the set is closed first.
func (s *Set) Park(ctx context.Context) error {
	l, err := s.openSleeper()
	if err != nil {
		return err
	}
	err = l.Sleep(ctx)
	s.signaled.Load() // what a goroutine wrote before Signal is seen by the one that it wakes
	return err
}

// openSleeper returns the sleeper on the event set. The first call makes it.
func (s *Set) openSleeper() (*event.Sleeper, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sleeper != nil {
		return s.sleeper, nil
	}
	if s.bell == nil {
		return nil, ErrClosed
	}
	var err error
	if s.sleeper, err = event.NewSleeper(s.events); err != nil {
		return nil, fmt.Errorf("ucp: %w", err)
	}
	return s.sleeper, nil
}
