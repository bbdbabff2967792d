package backoff

import (
	"testing"
	"time"
)

// trial is a backoff with a simulated clock.
type trial struct {
	*Backoff
	now time.Duration
}

func newTrial() *trial {
	p := new(trial)
	b := New(Adaptive, func() time.Duration { return p.now })
	p.Backoff = &b
	return p
}

// spent is what a wait did before its event.
type spent struct{ spins, yields, sleeps int }

// wait waits for an event that happens after so many spins or yields, or in the first sleep. A
// yield takes the given time, in which other goroutines use the CPU.
func (p *trial) wait(spins, yields int, yield time.Duration) (s spent) {
	const round = 100 * time.Nanosecond
	for {
		p.now += round
		switch p.Next(0) {
		case Spin, Rest:
			if s.spins++; s.spins == spins {
				p.Next(1)
				return s
			}
		case Yield:
			p.now += yield
			if s.yields++; s.yields == yields {
				p.Next(1)
				return s
			}
		case Sleep:
			s.sleeps++
			p.Next(1)
			return s
		}
	}
}

const notYet = 1 << 30

// TestSpins checks that a wait only spins if the events happen during the spin.
func TestSpins(t *testing.T) {
	p := newTrial()
	for range 1000 {
		if s := p.wait(100, notYet, 0); s != (spent{spins: 100}) {
			t.Fatalf("%+v", s)
		}
	}
}

// TestGivesUp checks that spinning and yielding in vain become rare, down to one wait in
// maxSkips+1, and are resumed when they succeed again.
func TestGivesUp(t *testing.T) {
	p := newTrial()
	var tried int
	const waits = 10 * (maxSkips + 1)
	for range waits {
		if s := p.wait(notYet, notYet, time.Microsecond); s.sleeps != 1 {
			t.Fatalf("%+v", s)
		} else if s.spins > 0 {
			tried++
		}
	}
	if tried > maxFailures+7+10 {
		t.Errorf("spun in %d of %d waits in vain", tried, waits)
	}
	paid := 0
	for range 3 * (maxSkips + 1) {
		if s := p.wait(10, notYet, time.Microsecond); s.sleeps == 0 {
			paid++
		}
	}
	if paid < 2*(maxSkips+1) {
		t.Errorf("spun in %d of %d waits in which it would have paid", paid, 3*(maxSkips+1))
	}
}

// TestYields checks that a wait yields rather than sleeps if the event follows a yield, as with a
// peer on the same CPU.
func TestYields(t *testing.T) {
	p := newTrial()
	var s spent
	for range 10 * (maxSkips + 1) {
		s = p.wait(notYet, 1, 5*time.Microsecond)
		if s.sleeps != 0 {
			t.Fatalf("%+v", s)
		}
	}
	if s.spins > 0 && p.spin.skips < maxSkips {
		t.Errorf("still spinning: %+v", s)
	}
}

// TestBusyMachine checks that yielding is given up if other goroutines use the CPU for long, even
// if the event has happened when the yield returns.
func TestBusyMachine(t *testing.T) {
	p := newTrial()
	yields := 0
	const waits = 10 * (maxSkips + 1)
	for range waits {
		yields += p.wait(notYet, 1, 3*time.Millisecond).yields
	}
	if yields > maxFailures+7+10 {
		t.Errorf("%d yields in %d waits", yields, waits)
	}
}

// TestPreempted checks that spinning is given up if other processes use the CPU meanwhile, although the event
// has happened when they return it, and even if one spin in five succeeds.
func TestPreempted(t *testing.T) {
	p := newTrial()
	spun := 0
	const waits = 10 * (maxSkips + 1)
	for range waits {
		if s := p.preempted(spun%5 == 4); s.spins > 0 {
			spun++
		}
	}
	if spun > waits/40 {
		t.Errorf("spun in %d of %d waits", spun, waits)
	}
}

// preempted waits for an event that happens after a few spins if lucky, and else while another process uses the
// CPU, as long as the wait spins.
func (p *trial) preempted(lucky bool) (s spent) {
	for {
		p.now += 100 * time.Nanosecond
		switch p.Next(0) {
		case Spin, Rest:
			if s.spins++; lucky && s.spins == 10 {
				p.Next(1)
				return s
			} else if s.spins == 100 {
				p.now += 12 * time.Millisecond
				p.Next(1)
				return s
			}
		case Yield:
			s.yields++
		case Sleep:
			s.sleeps++
			p.Next(1)
			return s
		}
	}
}

// TestPolicies checks that the policies CPU and Latency always sleep or always spin.
func TestPolicies(t *testing.T) {
	p := newTrial()
	p.Policy = CPU
	for range 10 {
		if s := p.wait(10, notYet, 0); s != (spent{sleeps: 1}) {
			t.Fatalf("cpu: %+v", s)
		}
	}
	p.Policy = Latency
	for range 10 {
		if s := p.wait(1_000_000, notYet, 0); s != (spent{spins: 1_000_000}) {
			t.Fatalf("latency: %+v", s)
		}
	}
}
