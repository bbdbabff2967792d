package event

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// told is a handler that records its events.
type told struct {
	events []Events
	do     func()
}

func (h *told) HandleEvent(ev Events) {
	h.events = append(h.events, ev)
	if h.do != nil {
		h.do()
	}
}

// sleeping returns a set with a bell, the bell's handler and a sleeper.
func sleeping(t *testing.T) (*Set, *Bell, *told, *Sleeper) {
	t.Helper()
	set, err := NewSet()
	if err != nil {
		t.Fatal(err)
	}
	h := new(told)
	bell, err := NewBell(set, h)
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSleeper(set)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close() // fails if the test has closed it
		for _, close := range []func() error{bell.Close, set.Close} {
			if err := close(); err != nil {
				t.Error(err)
			}
		}
	})
	return set, bell, h, s
}

// TestBell checks that a bell is ready from Ring to the next Clear, however often it is rung.
func TestBell(t *testing.T) {
	set, bell, h, s := sleeping(t)
	if n := set.Poll(); n != 0 {
		t.Fatalf("Poll = %d before the bell is rung", n)
	}
	for range 3 {
		if err := bell.Ring(); err != nil {
			t.Fatal(err)
		}
	}
	for want := 1; want <= 2; want++ { // readiness lasts
		if err := s.Sleep(t.Context()); err != nil {
			t.Error(err)
		}
		if n := set.Poll(); n != 1 || len(h.events) != want || h.events[want-1] != Read {
			t.Errorf("Poll = %d, told %v", n, h.events)
		}
	}
	bell.Clear()
	bell.Clear()
	if n := set.Poll(); n != 0 {
		t.Errorf("Poll = %d of a bell that was cleared", n)
	}
}

// TestBellWakes checks that a ring by another goroutine wakes a sleeper, each time.
func TestBellWakes(t *testing.T) {
	set, bell, h, s := sleeping(t)
	h.do = bell.Clear
	for round := 1; round <= 100; round++ {
		go bell.Ring()
		for len(h.events) < round {
			if err := s.Sleep(t.Context()); err != nil {
				t.Fatal(err)
			}
			set.Poll()
		}
	}
}

// TestSleepers checks that a bell wakes all sleepers of the set.
func TestSleepers(t *testing.T) {
	set, bell, h, first := sleeping(t)
	h.do = bell.Clear
	second, err := NewSleeper(set)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	woken := make(chan error)
	for range 100 {
		for _, s := range []*Sleeper{first, second} {
			go func() { woken <- s.Sleep(context.Background()) }()
		}
		bell.Ring()
		for range 2 {
			if err := <-woken; err != nil {
				t.Fatal(err)
			}
		}
		set.Poll()
	}
}

// TestClosedBell checks that the handler of a bell is not called if another handler has closed the
// bell in the same round.
func TestClosedBell(t *testing.T) {
	set, err := NewSet()
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	var handlers [2]told
	var bells [2]*Bell
	for i := range bells {
		handlers[i].do = func() { bells[1-i].Close() }
		if bells[i], err = NewBell(set, &handlers[i]); err != nil {
			t.Fatal(err)
		}
		bells[i].Ring()
	}
	if n := set.Poll(); n != 1 || set.Len() != 1 {
		t.Errorf("Poll = %d, %d are left", n, set.Len())
	}
	for i := range bells {
		if len(handlers[i].events) > 0 {
			bells[i].Close()
		}
	}
}

// TestSleepEnds checks that a sleep ends by a context that has ended or ends meanwhile, by a timer
// of the set, and by Close, and that a canceled sleep does not affect the next.
func TestSleepEnds(t *testing.T) {
	set, bell, _, s := sleeping(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Sleep(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
	ctx, cancel = context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if err := s.Sleep(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a context that ends: %v", err)
	}
	timers := NewTimers(set)
	expired := false
	if _, err := timers.After(time.Millisecond, func() { expired = true }); err != nil {
		t.Fatal(err)
	}
	for !expired {
		if err := s.Sleep(t.Context()); err != nil {
			t.Fatal(err)
		}
		set.Poll()
	}
	if err := timers.Close(); err != nil {
		t.Error(err)
	}
	bell.Ring()
	if err := s.Sleep(t.Context()); err != nil {
		t.Error(err)
	}
	bell.Clear()
	woken := make(chan error)
	for range 2 { // one sleep may start before Close, the other after it
		go func() { woken <- s.Sleep(context.Background()) }()
		s.Close()
		if err := <-woken; !errors.Is(err, os.ErrClosed) {
			t.Errorf("a closed sleeper: %v", err)
		}
	}
}
