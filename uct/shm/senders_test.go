//go:build linux

package shm

import (
	"testing"
	"time"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// mayCome reports whether an interface has found senders that could still send to it.
func mayCome(t *testing.T, h *ucttest.Host) bool {
	t.Helper()
	some, err := h.Iface.(uct.ProcessIface).FindSenders()
	if err != nil {
		t.Fatal(err)
	}
	return some
}

// TestFindSenders: an endpoint in this or another process counts as a sender until it is closed, or
// its process has ended, and its messages are delivered.
func TestFindSenders(t *testing.T) {
	threeWays(t, func(t *testing.T, transport, s string) {
		a, b := fixtureWith(t, transport, s).Pair(t)
		got := 0
		a.Handle(t, 3, func(*uct.Source, []byte, *uct.AMDesc) error { got++; return nil })
		if mayCome(t, a) {
			t.Error("somebody sends to a new ring")
		}
		ep := b.Connect(t, a)
		if !mayCome(t, a) {
			t.Error("an endpoint of this process does not count")
		}
		if err := ep.AMShort(3, 1, nil, 0, nil); err != nil {
			t.Fatal(err)
		}
		ep.Close()
		if !mayCome(t, a) {
			t.Error("a message that was not delivered does not count")
		}
		for got == 0 {
			a.Worker.Progress()
		}
		if mayCome(t, a) {
			t.Error("an endpoint that is closed counts")
		}

		peer := startPeer(t, transport, settingsList(s)...)
		peer.do("connect %x %x", a.Iface.DeviceAddress(), a.Iface.Address())
		if !mayCome(t, a) {
			t.Error("another process does not count")
		}
		peer.kill()
		if mayCome(t, a) {
			t.Error("a process that was killed counts")
		}
	})
}

// TestAttachDuringLook: endpoints are made while the ring's owner checks which processes have it
// open.
func TestAttachDuringLook(t *testing.T) {
	for name, s := range map[string]string{"without a name": "", "with one": "POSIX_USE_PROC_LINK=n"} {
		t.Run(name, func(t *testing.T) {
			ucttest.NoLeaks(t)
			a, b := fixtureWith(t, posixName, s).Pair(t)
			m, seg := a.Iface.(*iface).domain.m, a.Iface.(*iface).rx.seg
			// On a busy machine the thread may lose its CPU during each check.
			b.Iface.(*iface).domain.m.(*posix).lease.now = func() time.Duration { return 0 }
			look, over := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(over)
				for range look {
					for range 5 {
						if _, err := m.held(seg); err != nil {
							t.Error(err)
						}
					}
				}
			}()
			defer func() { close(look); <-over }()
			for range 500 {
				look <- struct{}{}
				b.Connect(t, a).Close()
			}
		})
	}
}
