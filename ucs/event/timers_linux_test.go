//go:build !simulate

package event

import (
	"cmp"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
)

func newTimers(t *testing.T) (*Set, *Timers) {
	t.Helper()
	s := newSet(t)
	tm := NewTimers(s)
	t.Cleanup(func() { check(t, tm.Close()) })
	return s, tm
}

// pollUntil waits for the set's descriptor and polls, as the set's owner would, until done.
func pollUntil(t *testing.T, s *Set, done func() bool) {
	t.Helper()
	for !done() {
		if !readable(t, s, 10_000) {
			t.Fatal("nothing happened in ten seconds")
		}
		s.Poll()
	}
}

func after(t *testing.T, tm *Timers, d time.Duration, fn func()) *Timer {
	t.Helper()
	x, err := tm.After(d, fn)
	check(t, err)
	return x
}

func TestTimersOrder(t *testing.T) {
	s, tm := newTimers(t)
	var got, want []*Timer
	for _, ms := range []int{3, 1, -1, 2} {
		var x *Timer
		x = after(t, tm, time.Duration(ms)*time.Millisecond, func() {
			if now := monotonic(); now < x.at {
				t.Errorf("fired %v early", x.at-now)
			}
			got = append(got, x)
		})
		want = append(want, x)
	}
	// The machine may pause between two calls, so the order in time may differ from that of the
	// list above.
	slices.SortFunc(want, func(a, b *Timer) int { return cmp.Compare(a.at, b.at) })
	pollUntil(t, s, func() bool { return len(got) == len(want) })
	if !slices.Equal(got, want) {
		t.Error("the timers fired out of order")
	}
	if readable(t, s, 0) {
		t.Error("the set is ready although no timer is left")
	}
}

func TestTimerStop(t *testing.T) {
	s, tm := newTimers(t)
	fired := 0
	a := after(t, tm, time.Millisecond, func() { t.Error("a stopped timer fired") })
	after(t, tm, 2*time.Millisecond, func() { fired++ })
	if !a.Stop() || a.Stop() {
		t.Error("Stop does not know whether the timer was scheduled")
	}
	pollUntil(t, s, func() bool { return fired == 1 })
	// A timer that fired or was stopped can be used again.
	again := 0
	a.fn = func() { again++ }
	check(t, a.Reset(0))
	pollUntil(t, s, func() bool { return again == 1 })
	if a.Stop() {
		t.Error("Stop of a fired timer is true")
	}
}

func TestTimerReset(t *testing.T) {
	s, tm := newTimers(t)
	var got []string
	far := after(t, tm, time.Hour, func() { got = append(got, "far") })
	near := after(t, tm, time.Minute, func() { got = append(got, "near") })
	check(t, near.Reset(2*time.Hour)) // later than the time the alarm is set to
	check(t, far.Reset(0))            // earlier
	pollUntil(t, s, func() bool { return len(got) == 1 })
	check(t, near.Reset(0))
	pollUntil(t, s, func() bool { return len(got) == 2 })
	if !slices.Equal(got, []string{"far", "near"}) {
		t.Errorf("fired in order %v", got)
	}
}

// TestTimerFunctions checks timers whose functions stop, reset and start timers.
func TestTimerFunctions(t *testing.T) {
	s, tm := newTimers(t)
	var periodic, stopped *Timer
	ticks, polls := 0, 0
	periodic = after(t, tm, 0, func() {
		stopped.Stop()
		if ticks++; ticks < 5 {
			check(t, periodic.Reset(0)) // due at once, but not in this Poll
		}
	})
	stopped = after(t, tm, 0, func() { t.Error("stopped by another timer's function, but fired") })
	for monotonic() < stopped.at { // until both are due in one Poll
	}
	nested := false
	after(t, tm, 0, func() { after(t, tm, 0, func() { nested = true }) })
	for ticks < 5 || !nested {
		if !readable(t, s, 10_000) {
			t.Fatal("nothing happened in ten seconds")
		}
		before := ticks
		s.Poll()
		polls++
		if ticks > before+1 {
			t.Fatalf("%d ticks in one Poll", ticks-before)
		}
	}
	if polls < 5 {
		t.Errorf("%d ticks in %d polls", ticks, polls)
	}
}

func TestTimersClose(t *testing.T) {
	s, tm := newTimers(t)
	a := after(t, tm, 0, func() { t.Error("fired after Close") })
	check(t, tm.Close())
	check(t, tm.Close())
	if !readable(t, s, 0) {
		s.Poll()
	}
	if a.Stop() {
		t.Error("Stop after Close is true")
	}
	if err := a.Reset(0); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("Reset after Close = %v", err)
	}
	if _, err := tm.After(0, func() {}); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("After after Close = %v", err)
	}
	if s.Len() != 0 {
		t.Error("the alarm is still watched")
	}
}

func TestTimersCloseInFunction(t *testing.T) {
	s, tm := newTimers(t)
	fired := 0
	for range 3 {
		after(t, tm, 0, func() {
			fired++
			check(t, tm.Close())
		})
	}
	pollUntil(t, s, func() bool { return fired > 0 })
	if fired != 1 || s.Poll() != 0 {
		t.Errorf("%d functions ran, want 1", fired)
	}
}

func TestTimersWithoutUse(t *testing.T) {
	s, tm := newTimers(t)
	if s.Len() != 0 {
		t.Error("timers take a descriptor before the first one")
	}
	check(t, tm.Close())
}

func TestTimersOfClosedSet(t *testing.T) {
	s, tm := newTimers(t)
	check(t, s.Close())
	if _, err := tm.After(0, func() {}); err == nil {
		t.Error("After on a closed set succeeds")
	}
}

// TestTimersModel compares the choice of due timers with a list, for times far in the future that
// the test declares to be reached.
func TestTimersModel(t *testing.T) {
	set := newSet(t)
	rapid.Check(t, func(t *rapid.T) {
		tm := NewTimers(set)
		defer tm.Close()
		type entry struct {
			timer     *Timer
			scheduled bool
			fired     int
		}
		var all []*entry
		pick := func(t *rapid.T) *entry {
			if len(all) == 0 {
				t.Skip("no timers")
			}
			return rapid.SampledFrom(all).Draw(t, "timer")
		}
		delay := rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(1, 20).Draw(t, "hours")) * time.Hour
		})
		t.Repeat(map[string]func(*rapid.T){
			"after": func(t *rapid.T) {
				e := &entry{scheduled: true}
				x, err := tm.After(delay.Draw(t, "delay"), func() { e.fired++; e.scheduled = false })
				if err != nil {
					t.Fatal(err)
				}
				e.timer = x
				all = append(all, e)
			},
			"reset": func(t *rapid.T) {
				e := pick(t)
				if err := e.timer.Reset(delay.Draw(t, "delay")); err != nil {
					t.Fatal(err)
				}
				e.scheduled = true
			},
			"stop": func(t *rapid.T) {
				e := pick(t)
				if e.timer.Stop() != e.scheduled {
					t.Fatalf("Stop is not %v", e.scheduled)
				}
				e.scheduled = false
			},
			"time passes": func(t *rapid.T) {
				d := delay.Draw(t, "delay")
				limit := monotonic() + d
				want := make(map[*entry]int)
				for _, e := range all {
					want[e] = e.fired
					if e.scheduled && e.timer.at <= limit {
						want[e]++
					}
				}
				for _, e := range all {
					e.timer.at -= d
				}
				tm.HandleEvent(Read)
				for _, e := range all {
					// A timer may come due between the two readings of the
					// clock, but times are hours apart here.
					if e.fired != want[e] {
						t.Fatalf("a timer fired %d times, want %d", e.fired, want[e])
					}
				}
			},
			"": func(t *rapid.T) {
				n := 0
				for _, e := range all {
					if e.scheduled {
						n++
					}
					if e.scheduled != (e.timer.index >= 0) {
						t.Fatal("a timer is in the heap and not scheduled, or the reverse")
					}
				}
				if n != len(tm.heap) {
					t.Fatalf("%d timers are in the heap, want %d", len(tm.heap), n)
				}
				if n > 0 && tm.rings > tm.heap[0].at {
					t.Fatalf("the alarm goes off at %v, a timer is due at %v", tm.rings, tm.heap[0].at)
				}
			},
		})
	})
}

func TestLongestTimer(t *testing.T) {
	s, tm := newTimers(t)
	x := after(t, tm, never, func() { t.Error("fired") })
	if s.Poll() != 0 || x.at != never {
		t.Errorf("the longest timer is due at %v", x.at)
	}
	check(t, x.Reset(never-1))
	if s.Poll() != 0 {
		t.Error("a long timer fired")
	}
}

func TestResetAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("allocation test: the race detector allocates")
	}
	_, tm := newTimers(t)
	x := after(t, tm, time.Hour, func() {})
	if n := testing.AllocsPerRun(100, func() {
		check(t, x.Reset(time.Hour))
		x.Stop()
		check(t, x.Reset(time.Minute))
	}); n != 0 {
		t.Errorf("%v allocations per Reset, want 0", n)
	}
}

func TestClock(t *testing.T) {
	var c Clock
	before := monotonic()
	first := c.Now(0)
	if first < before || first > monotonic() {
		t.Errorf("Now = %v, not between two readings", first)
	}
	for monotonic() == first {
	}
	if c.Now(0) != first {
		t.Error("the clock goes on within a round")
	}
	if c.Now(1) <= first {
		t.Error("the clock stands still in the next round")
	}
	next := c.Now(1)
	for monotonic() == next {
	}
	if again := c.Again(1); again <= next || c.Now(1) != again {
		t.Errorf("read again %v, then %v, after %v", again, c.Now(1), next)
	}
}

func TestRoughClock(t *testing.T) {
	var c Clock
	before := monotonic()
	last := c.Rough(0)
	if last < before || last > monotonic() {
		t.Errorf("Rough = %v, not between two readings", last)
	}
	// Rough advances, not in each round, but after a while.
	for round := uint64(1); c.Rough(round) == last; round++ {
	}
	// Rough never goes back, not even behind what Now has returned.
	for round := uint64(1 << 20); round < 1<<20+1000; round++ {
		rough := c.Rough(round)
		if rough < last || rough > monotonic() {
			t.Fatalf("Rough = %v after %v, at %v", rough, last, monotonic())
		}
		if round%3 == 0 {
			if last = c.Now(round); last < rough || c.Rough(round) != last {
				t.Fatalf("Now = %v after Rough = %v, which is %v then", last, rough, c.Rough(round))
			}
		}
	}
	last = c.Now(1<<20 + 5000) // in a round in which the clock was read, Rough has that time
	for monotonic() < last+time.Millisecond {
	}
	if got := c.Rough(1<<20 + 5000); got != last {
		t.Errorf("Rough = %v and %v in one round", last, got)
	}
	c.Forget()
	before = monotonic()
	if got := c.Rough(1 << 21); got < before {
		t.Errorf("forgotten, Rough = %v, want one since %v", got, before)
	}
	if n := testing.AllocsPerRun(100, func() { c.Rough(1 << 22) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
