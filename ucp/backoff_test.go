package ucp

import (
	"testing"
	"time"
)

// backoffTrial is a wait: how long rounds take, and what brings the event about.
type backoffTrial struct {
	*backoff
	now time.Duration
}

func newPaceTrial(t *testing.T) *backoffTrial {
	p := &backoffTrial{backoff: new(backoff)}
	was := waitClock
	waitClock = func() time.Duration { return p.now }
	t.Cleanup(func() { waitClock = was })
	return p
}

// spent is what a wait has done.
type spent struct{ spins, yields, sleeps int }

// wait waits for an event that happens after so many spins or yields, or in the first
// sleep. A yield takes as long as it takes others to use the CPU.
func (p *backoffTrial) wait(spins, yields int, yield time.Duration) (s spent) {
	const round = 100 * time.Nanosecond
	for {
		p.now += round
		switch p.next(0) {
		case backoffSpin, backoffRest:
			if s.spins++; s.spins == spins {
				p.next(1)
				return s
			}
		case backoffYield:
			p.now += yield
			if s.yields++; s.yields == yields {
				p.next(1)
				return s
			}
		case backoffSleep:
			s.sleeps++
			p.next(1)
			return s
		}
	}
}

const notYet = 1 << 30

// TestBackoffSpins: where the peer answers while we spin nothing else is done.
func TestBackoffSpins(t *testing.T) {
	p := newPaceTrial(t)
	for range 1000 {
		if s := p.wait(100, notYet, 0); s != (spent{spins: 100}) {
			t.Fatalf("%+v", s)
		}
	}
}

// TestBackoffGivesUp: a way that never pays is tried less and less, down to one wait in
// maxSkips+1; when it pays again it is taken again.
func TestBackoffGivesUp(t *testing.T) {
	p := newPaceTrial(t)
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

// TestBackoffYields: a peer that shares our CPU answers as soon as we yield.
func TestBackoffYields(t *testing.T) {
	p := newPaceTrial(t)
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

// TestBackoffBusyMachine: where a yield lets others use the CPU for long it is given up,
// also if the event has happened meanwhile.
func TestBackoffBusyMachine(t *testing.T) {
	p := newPaceTrial(t)
	yields := 0
	const waits = 10 * (maxSkips + 1)
	for range waits {
		yields += p.wait(notYet, 1, 3*time.Millisecond).yields
	}
	if yields > maxFailures+7+10 {
		t.Errorf("%d yields in %d waits", yields, waits)
	}
}

// TestBackoffPolicies: what is asked for is done.
func TestBackoffPolicies(t *testing.T) {
	p := newPaceTrial(t)
	p.rule = WaitCPU
	for range 10 {
		if s := p.wait(10, notYet, 0); s != (spent{sleeps: 1}) {
			t.Fatalf("cpu: %+v", s)
		}
	}
	p.rule = WaitLatency
	for range 10 {
		if s := p.wait(1_000_000, notYet, 0); s != (spent{spins: 1_000_000}) {
			t.Fatalf("latency: %+v", s)
		}
	}
}

// TestWaitSetting: UCX_WAIT and the parameter.
func TestWaitSetting(t *testing.T) {
	for _, c := range []struct {
		setting string
		param   WaitPolicy
		want    WaitPolicy
	}{
		{"adaptive", WaitAdaptive, WaitAdaptive},
		{"latency", WaitAdaptive, WaitLatency},
		{" CPU", WaitAdaptive, WaitCPU},
		{"latency", WaitCPU, WaitCPU},
	} {
		ctx := targetContext(t, "TLS", "self", "WAIT", c.setting)
		w, err := ctx.NewWorker(WorkerParams{Wait: c.param})
		if err != nil {
			t.Fatal(err)
		}
		if w.backoff.rule != c.want {
			t.Errorf("setting %q, parameter %v: %v, want %v", c.setting, c.param, w.backoff.rule, c.want)
		}
		w.Close()
		if _, err := ctx.NewWorker(WorkerParams{Wait: numWaitPolicies}); err == nil {
			t.Error("an unknown policy is taken")
		}
	}
	var v waitSetting
	if v.ParseConfig("sometimes") == nil {
		t.Error("an unknown value is taken")
	}
}
