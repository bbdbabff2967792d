//go:build linux

package rc_test

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// sleep progresses a host until its worker is armed.
func sleep(t *testing.T, h *ucttest.Host) {
	t.Helper()
	ucttest.Until(t, "the worker to be armed", func() bool { return h.Worker.Arm() == nil }, h)
}

// TestSleepingSendFails checks that a sleeping worker is woken when a send fails, although no
// caller waits for it. Devices like soft-RoCE have no event for failures alone.
func TestSleepingSendFails(t *testing.T) {
	for _, sends := range []int{1, 2, 100} {
		r, p, other := duo(t)
		r.Slow(1) // so that the worker does not see the failure before it sleeps
		h := p.Host
		ucttest.Settle(h)
		for range sends {
			check(t, p.ep.AMShort(1, 2, nil, 0, nil))
		}
		check(t, p.Ctx.Close())
		check(t, h.Worker.Arm())
		for k := 0; !rigtest.Woken(t, h); k++ {
			if k == 1000 {
				t.Fatalf("%d sends: nobody is woken", sends)
			}
			r.Step(1)
		}
		ucttest.Until(t, "the failure", func() bool { return h.Failed(p.ep) != nil }, h)
		if err := h.Failed(p.ep); !errors.Is(err, ucs.ErrEndpointTimeout) || h.Failed(other.ep) != nil {
			t.Errorf("%v and %v", err, h.Failed(other.ep))
		}
	}
}

// TestWakeups checks how often a worker that sleeps after a burst of sends is woken although no
// caller waits for them: by the sends that ask for a completion, which are the first and one in
// each moderation interval, and by the write that confirms the last. If the peer acknowledges all
// at once, that is one or two wakeups.
func TestWakeups(t *testing.T) {
	for _, sends := range []int{1, 2, 10, 200} {
		for pace, most := range map[int]int{1: 2 + (sends-1)/65, 1 << 20: 2} {
			r, p, _ := duo(t)
			h := p.Host
			ucttest.Settle(h)
			for range sends {
				check(t, p.ep.AMShort(1, 2, nil, 0, nil))
			}
			wakeups := 0
			for k := 0; k < 1000; k++ {
				sleep(t, h)
				for n := 1; n > 0 && !rigtest.Woken(t, h); {
					n = r.Step(pace)
				}
				if !rigtest.Woken(t, h) {
					break
				}
				wakeups++
			}
			if free, total := rc.Credits(h.Iface); free != total || wakeups > most || wakeups == 0 || len(p.Received()) != sends {
				t.Errorf("%d messages, %d at once: woken %d times, want %d at most; %d credits of %d", sends, pace, wakeups, most, free, total)
			}
		}
	}
}

// TestReceiverWakeups checks that a worker that only receives is woken for messages, and for the
// completions of its grants, which are few.
func TestReceiverWakeups(t *testing.T) {
	r := newRig(t, verbstest.Port{}).Slow(1 << 20)
	f := fixture(t, r)
	a, b := f.Pair(t)
	ab, _ := a.ConnectPair(t, b)
	got := b.Collect(t, 1)
	ucttest.Settle(a, b)
	const messages = 2000
	const grants = messages/(512-128) + 1 // hard requests
	inVain := 0
	for n := range messages {
		sleep(t, b)
		if rigtest.Woken(t, b) {
			t.Fatalf("message %d: woken by nothing", n)
		}
		ucttest.Accept(t, func() error { return ab.AMShort(1, 2, nil, 0, nil) }, a)
		for before := got.Len(); got.Len() == before; {
			r.Step(1 << 20)
			if !rigtest.Woken(t, b) {
				t.Fatalf("message %d: not woken", n)
			}
			was := got.Len()
			sleep(t, b)
			if got.Len() == was {
				inVain++
			}
		}
		a.Worker.Progress()
	}
	for rigtest.Woken(t, b) {
		sleep(t, b)
		inVain++
	}
	if inVain > grants {
		t.Errorf("woken %d times for nothing in %d messages", inVain, messages)
	}
}
