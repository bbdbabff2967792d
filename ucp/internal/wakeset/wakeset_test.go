package wakeset

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
)

// host is an engine's host without a worker.
type host struct{ *Set }

func (host) Arm() bool { return false }
func (host) Later()    {}

func open(t *testing.T, multi, polled bool) (*Set, *event.Set) {
	t.Helper()
	if runtime.GOOS != "linux" && polled {
		t.Skip("this system has no descriptor to poll")
	}
	events, err := event.NewSet()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { events.Close() })
	s := new(Set)
	var e *engine.Engine
	if multi {
		e = engine.New(host{s})
	}
	if err := s.Open(events, e, polled); err != nil {
		t.Fatal(err)
	}
	return s, events
}

// TestSignal checks that a signal is kept until it is consumed, once, whether a goroutine sleeps or
// not.
func TestSignal(t *testing.T) {
	for _, multi := range []bool{false, true} {
		s, _ := open(t, multi, false)
		if s.Signaled() || s.Consume() {
			t.Error("a new set has a signal")
		}
		for range 2 {
			if err := s.Signal(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Park(t.Context()); err != nil { // returns at once, because of the signal
			t.Error(err)
		}
		if !s.Signaled() || !s.Consume() || s.Consume() {
			t.Error("the signal was not consumed once")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Park(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("a sleep after the signal was consumed: %v", err)
		}
		s.Close(false)
	}
}

// TestRouse checks that Rouse wakes a sleeper without leaving a signal.
func TestRouse(t *testing.T) {
	s, _ := open(t, false, false)
	defer s.Close(false)
	done := make(chan error)
	go func() { done <- s.Park(t.Context()) }()
	s.Rouse()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if s.Consume() {
		t.Error("it looks like a signal")
	}
}

// TestClosed: calls on a closed set return errors, and Rouse, Ring and Return do nothing.
func TestClosed(t *testing.T) {
	s, _ := open(t, false, false)
	s.Close(false)
	s.Close(true)
	if err := s.Signal(); err != ErrSignal || !errors.Is(err, ucs.ErrInvalidParam) {
		t.Error(err)
	}
	if err := s.Park(t.Context()); err != ErrClosed || !errors.Is(err, ucs.ErrCanceled) {
		t.Error(err)
	}
	s.Rouse()
	s.Ring()
	s.Return()
	if s.Signaled() {
		t.Error("a signal of a closed set")
	}
}
