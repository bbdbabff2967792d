//go:build linux

package rc_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// sleep progresses a host until it is armed.
func sleep(t *testing.T, h *ucttest.Host) {
	t.Helper()
	ucttest.Until(t, "the worker to be armed", func() bool { return h.Worker.Arm() == nil }, h)
}

// woken reports whether an armed host would wake.
func woken(t *testing.T, h *ucttest.Host) bool {
	t.Helper()
	p := []unix.PollFd{{Fd: int32(h.Worker.EventFD()), Events: unix.POLLIN}}
	for {
		n, err := unix.Poll(p, 0)
		if err != unix.EINTR {
			check(t, err)
			return n == 1
		}
	}
}

// TestSleepingSendFails: who sleeps is told of a send that has failed, though nobody waits for it.
// Devices like those of soft-RoCE have no event for failures alone.
func TestSleepingSendFails(t *testing.T) {
	for _, sends := range []int{1, 2, 100} {
		r, p, other := duo(t)
		r.pace = 1 // so that the worker does not see it come
		h := p.host
		ucttest.Settle(h)
		for range sends {
			check(t, p.ep.AMShort(1, 2, nil, 0, nil))
		}
		check(t, p.ctx.Close())
		check(t, h.Worker.Arm())
		for k := 0; !woken(t, h); k++ {
			if k == 1000 {
				t.Fatalf("%d sends: nobody is woken", sends)
			}
			r.net.Step(1)
		}
		ucttest.Until(t, "the failure", func() bool { return h.Failed(p.ep) != nil }, h)
		if err := h.Failed(p.ep); !errors.Is(err, ucs.ErrEndpointTimeout) || h.Failed(other.ep) != nil {
			t.Errorf("%v and %v", err, h.Failed(other.ep))
		}
	}
}

// TestWakeups: who sleeps behind a burst of messages that nobody waits for is woken by those
// that ask for a completion, which are the first, one in each moderation, and the write that
// confirms the last; and not again until there is something new. Where the peer acknowledges
// them at once all is one wakeup.
func TestWakeups(t *testing.T) {
	for _, sends := range []int{1, 2, 10, 200} {
		for pace, most := range map[int]int{1: 2 + (sends-1)/65, 1 << 20: 2} {
			r, p, _ := duo(t)
			h := p.host
			ucttest.Settle(h)
			for range sends {
				check(t, p.ep.AMShort(1, 2, nil, 0, nil))
			}
			wakeups := 0
			for k := 0; k < 1000; k++ {
				sleep(t, h)
				for n := 1; n > 0 && !woken(t, h); {
					n = r.net.Step(pace)
				}
				if !woken(t, h) {
					break
				}
				wakeups++
			}
			if free, total := rc.Credits(h.Iface); free != total || wakeups > most || wakeups == 0 || len(p.heard()) != sends {
				t.Errorf("%d messages, %d at once: woken %d times, want %d at most; %d credits of %d", sends, pace, wakeups, most, free, total)
			}
		}
	}
}

// TestReceiverWakeups: who only receives is woken for messages, and by the grants that it gives,
// of which there are few.
func TestReceiverWakeups(t *testing.T) {
	r := newRig(t, verbstest.Port{}).slow(1 << 20)
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
		if woken(t, b) {
			t.Fatalf("message %d: woken by nothing", n)
		}
		ucttest.Accept(t, func() error { return ab.AMShort(1, 2, nil, 0, nil) }, a)
		for before := got.Len(); got.Len() == before; {
			r.net.Step(1 << 20)
			if !woken(t, b) {
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
	for woken(t, b) {
		sleep(t, b)
		inVain++
	}
	if inVain > grants {
		t.Errorf("woken %d times for nothing in %d messages", inVain, messages)
	}
}
