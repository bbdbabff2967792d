//go:build linux

package shm

import (
	"bytes"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// block fills the ring that ep leads to and adds a request of a that waits for room.
func block(t *testing.T, a *ucttest.Host, ep uct.Endpoint) {
	t.Helper()
	for ep.AMShort(2, 0, nil, 0, nil) == nil {
	}
	req := ucttest.NewPending(func() error { return ep.AMShort(2, 0, nil, 0, nil) })
	if err := ep.PendingAdd(&req.Pending); err != nil {
		t.Fatal(err)
	}
	ucttest.WantStatus(t, "arming with a request that has come", a.Worker.Arm(), ucs.ErrBusy)
}

// waited makes the interface appear to have been blocked for longer by d.
func waited(h *ucttest.Host, d time.Duration) { h.Iface.(*iface).blocked.since -= d }

// TestLooks: the number of times that a blocked sender checks the ring grows with the logarithm of
// the time that it is blocked, until a sleep has its maximum length.
func TestLooks(t *testing.T) {
	looks := 0
	for blocked := pollTime; blocked < maxSleep; looks++ {
		d := pollInterval(blocked)
		if d <= 0 || d > blocked {
			t.Fatalf("blocked for %v it sleeps for %v", blocked, d)
		}
		blocked += d
	}
	if looks > 7 {
		t.Errorf("%d looks in the first %v", looks, maxSleep)
	}
	if d := pollInterval(time.Hour); d != maxSleep {
		t.Errorf("a sleep of %v", d)
	}
}

// foreign makes an endpoint take its peer for one of C UCX.
func foreign(ep uct.Endpoint) { ep.(*endpoint).ours = false }

// TestBlockedForLong: a blocked sender whose peer sends no wakeups sleeps for limited times. It
// continues once the peer has received messages, and does not sleep at once when it is blocked
// again.
func TestBlockedForLong(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		a, b := f.Pair(t)
		ep := a.Connect(t, b)
		foreign(ep)
		n := count(t, b, 2)
		for range 3 {
			block(t, a, ep)
			for range 5 { // the peer receives nothing
				waited(a, pollTime)
				if err := a.Worker.Arm(); err != nil {
					t.Fatal(err)
				}
				awakes(t, a)
				ucttest.Progress(a)
			}
			for before := *n; b.Worker.Progress() > 0 || *n == before; {
			}
			ucttest.WantStatus(t, "arming with room", a.Worker.Arm(), ucs.ErrBusy)
			want := *n + 1
			ucttest.Until(t, "what has waited", func() bool { return *n == want }, a, b)
			ucttest.Until(t, "being armed", func() bool { return a.Worker.Arm() == nil }, a)
		}
	})
}

// TestBlockedAgain: a sender does not sleep at once after some of its waiting requests were sent.
func TestBlockedAgain(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		a, b := f.Pair(t)
		ep := a.Connect(t, b)
		n := count(t, b, 2)
		block(t, a, ep)
		ring := b.Iface.(*iface).rx.n
		for range ring {
			req := ucttest.NewPending(func() error { return ep.AMShort(2, 0, nil, 0, nil) })
			if err := ep.PendingAdd(&req.Pending); err != nil {
				t.Fatal(err)
			}
		}
		sleep(t, a)
		for *n < ring {
			b.Worker.Progress()
		}
		a.Worker.Progress()
		ucttest.WantStatus(t, "arming after some have gone", a.Worker.Arm(), ucs.ErrBusy)
		sleep(t, a)
		ucttest.Until(t, "all of them", func() bool { return *n == 2*ring+1 }, a, b)
	})
}

// TestDeathWhileAsleep: a sender that sleeps, blocked, detects that its peer has exited.
func TestDeathWhileAsleep(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		h, p, ep := connected(t, f)
		block(t, h, ep)
		p.kill()
		for looks := 0; h.Failed(ep) == nil; looks++ {
			if looks == 20 {
				t.Fatal("it never learns")
			}
			waited(h, pollTime)
			if h.Worker.Arm() == nil {
				awakes(t, h)
			}
			h.Worker.Progress()
		}
		ucttest.WantStatus(t, "failure", h.Failed(ep), ucs.ErrConnectionReset)
	})
}

// TestBlockedOnC: a sender whose C peer receives nothing sleeps, writes nothing to the ring outside
// its elements, and continues when messages are received.
func TestBlockedOnC(t *testing.T) {
	overC(t, func(t *testing.T, c cInstallation, transport string) {
		h := openFor(t, transport, c.release, nil)
		p := startC(t, c, transport)
		ep := h.NewEndpoint(t, uct.EndpointParams{DeviceAddr: p.dev, IfaceAddr: p.addr})
		p.want("ok", nil, "connect %x %x", h.Iface.DeviceAddress(), h.Iface.Address())
		n := uint64(0)
		send := func() error {
			err := ep.AMShort(5, n, pattern(20, n)[8:], 0, nil)
			if err == nil {
				n++
			}
			return err
		}
		third := ep.(*endpoint).seg.mem[tailOffset:elemsOffset] // written by the receiver
		before := bytes.Clone(third)
		for send() == nil {
		}
		full := n
		req := ucttest.NewPending(send)
		if err := ep.PendingAdd(&req.Pending); err != nil {
			t.Fatal(err)
		}
		h.Worker.Arm()
		for range 3 {
			sleep(t, h)
			awakes(t, h)
			ucttest.Progress(h)
		}
		if !bytes.Equal(third, before) {
			t.Errorf("a blocked sender wrote % x, before there was % x", third, before)
		}
		p.send("receive %d", full+1)
		for n == full {
			if h.Worker.Progress() == 0 && h.Worker.Arm() == nil {
				awakes(t, h)
			}
		}
		if got := p.line(); got != "ok 0 wrong" {
			t.Errorf("the C peer has received: %s", got)
		}
	})
}
