//go:build linux

package shm

import (
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log/logtest"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// awakes waits until something ends the sleep of a worker.
func awakes(t *testing.T, h *ucttest.Host) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(h.Worker.EventFD()), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, int(time.Minute/time.Millisecond))
	for err == unix.EINTR {
		n, err = unix.Poll(fds, int(time.Minute/time.Millisecond))
	}
	if n != 1 {
		t.Fatalf("still asleep: %v", err)
	}
}

// TestUnread: while there is an endpoint to a peer in another network namespace, which cannot wake
// this process, every sleep ends by itself. Without such an endpoint it does not.
func TestUnread(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		near, far := startPeer(t, f.Component.Name()), startPeerIn(t, unix.CLONE_NEWNET, f.Component.Name())
		h := f.Open(t)
		i := h.Iface.(*iface)
		open := func(p *goPeer) uct.Endpoint {
			t.Helper()
			ep, err := i.NewEndpoint(uct.EndpointParams{DeviceAddr: p.dev, IfaceAddr: p.addr})
			if err != nil {
				t.Fatal(err)
			}
			return ep
		}
		defer open(near).Close()
		if i.sleeps.unwakeable != 0 {
			t.Errorf("%d peers cannot wake us", i.sleeps.unwakeable)
		}
		ep := open(far)
		for range 3 {
			for h.Worker.Progress() > 0 {
			}
			if err := h.Worker.Arm(); err != nil {
				t.Fatal(err)
			}
			awakes(t, h)
		}
		for h.Worker.Progress() > 0 {
		}
		if n := i.sleeps.next; n != 8*minSleep {
			t.Errorf("the next nap takes %v, want %v", n, 8*minSleep)
		}
		ep.Close()
		if i.sleeps.unwakeable != 0 || i.sleeps.timer.Stop() {
			t.Error("sleep is short without reason")
		}
	})
}

// TestArmedAgain: arming a worker again, as calls of other goroutines do, neither lengthens a
// limited sleep nor moves its end.
func TestArmedAgain(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		h := f.Open(t)
		n := &h.Iface.(*iface).sleeps
		n.unwakeable = 1
		arm := func() {
			t.Helper()
			if err := h.Worker.Arm(); err != nil {
				t.Fatal(err)
			}
		}
		arm()
		next, end := n.next, n.end
		for range 10 {
			arm()
		}
		if n.next != next || n.end != end {
			t.Errorf("a nap of %v until %v, at first of %v until %v", n.next, n.end, next, end)
		}
		// A sleep that would end later does not replace it.
		n.unwakeable = 0
		arm()
		if n.end != end {
			t.Errorf("a nap until %v has become one until %v", end, n.end)
		}
	})
}

// TestUnreadSender: a message wakes a worker even if its sender has no working wakeup and the
// worker has no endpoint to it.
func TestUnreadSender(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		far := startPeerIn(t, unix.CLONE_NEWNET, f.Component.Name())
		h := f.Open(t)
		got := 0
		h.Handle(t, 2, func(*uct.Source, []byte, *uct.AMDesc) error { got++; return nil })
		far.do("connect %x %x", h.Iface.DeviceAddress(), h.Iface.Address())
		if err := h.Worker.Arm(); err != nil {
			t.Fatal(err)
		}
		far.do("send 1")
		awakes(t, h)
		for range 100 {
			h.Worker.Progress()
		}
		if got != 1 {
			t.Errorf("awake, and %d messages", got)
		}
	})
}

// TestNoTimer: a worker that nothing would wake cannot be armed while no descriptor is left for a
// timer. It can be armed as soon as there is one.
func TestNoTimer(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		logtest.Watch(t).Expect("ulimit -n")
		a, b := f.Pair(t)
		idle := f.Open(t)
		block(t, a, a.Connect(t, b))
		waited(a, pollTime)
		withoutFiles(t, func() {
			for range 3 {
				for _, h := range []*ucttest.Host{a, idle} {
					h.Worker.Progress()
					ucttest.WantStatus(t, "arming without a timer", h.Worker.Arm(), ucs.ErrBusy)
				}
			}
		})
		sleep(t, a)
		sleep(t, idle)
	})
}

// withoutFiles runs fn while the process can open nothing.
func withoutFiles(t *testing.T, fn func()) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Max: old.Max}); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_NOFILE, &old)
	fn()
}
