//go:build linux

package shm

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// survivor returns a host and another process that have endpoints to each other.
func survivor(t *testing.T, transport, s string) (*ucttest.Host, *goPeer, uct.Endpoint) {
	t.Helper()
	return connected(t, fixtureWith(t, transport, s), settingsList(s)...)
}

// sleeps waits as an idle worker does, then progresses.
func sleeps(t *testing.T, h *ucttest.Host) {
	t.Helper()
	if h.Worker.Arm() == nil {
		fds := []unix.PollFd{{Fd: int32(h.Worker.EventFD()), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, 10_000); err != nil && err != unix.EINTR {
			t.Fatal(err)
		}
	}
	h.Worker.Progress()
}

// TestExitWakes: a sleeping worker is woken when the process of a peer exits. The endpoints to the
// peer fail after its messages have been delivered, without any call that checks them.
func TestExitWakes(t *testing.T) {
	threeWays(t, func(t *testing.T, transport, s string) {
		h, p, ep := survivor(t, transport, s)
		second := h.NewEndpoint(t, uct.EndpointParams{DeviceAddr: p.dev, IfaceAddr: p.addr})
		n := 0
		h.Handle(t, 2, func(*uct.Source, []byte, *uct.AMDesc) error {
			if n++; len(h.Failures) > 0 {
				t.Errorf("message %d comes behind the failure", n)
			}
			return nil
		})
		h.Worker.Progress()
		p.do("send 100")
		p.kill()
		for k := 0; len(h.Failures) < 2; k++ {
			if k == 60 {
				t.Fatalf("not told, after %d messages", n)
			}
			sleeps(t, h)
		}
		if n != 100 {
			t.Errorf("%d messages, want 100", n)
		}
		for _, e := range []uct.Endpoint{ep, second} {
			ucttest.WantStatus(t, "failure", h.Failed(e), ucs.ErrConnectionReset)
			ucttest.WantStatus(t, "sending after it", e.AMShort(2, 0, nil, 0, nil), ucs.ErrConnectionReset)
		}
		if w := h.Iface.(*iface).watcher; w.Unsettled() {
			t.Error("something is still to be told")
		}
	})
}

// TestAccessAfterExit: a caller that accesses memory of a peer without progress gets an error once
// the process has exited, with and without a descriptor that watches the process.
func TestAccessAfterExit(t *testing.T) {
	const most = 200_000_000 // takes seconds
	threeWays(t, func(t *testing.T, transport, s string) {
		for _, told := range []bool{true, false} {
			for name, access := range map[string]func(ep uct.Endpoint, addr uint64, key *uct.Rkey) error{
				"put": func(ep uct.Endpoint, addr uint64, key *uct.Rkey) error {
					return ep.(uct.RMA).PutShort(make([]byte, 8), addr, key)
				},
				"get": func(ep uct.Endpoint, addr uint64, key *uct.Rkey) error {
					return ep.(uct.RMA).GetBcopy(into(make([]byte, 8)), 8, addr, key, nil)
				},
				"add": func(ep uct.Endpoint, addr uint64, key *uct.Rkey) error {
					var old uint64
					return ep.(uct.Atomic).Atomic64Fetch(uct.AtomicAdd, 1, &old, addr, key, nil)
				},
				"compare and swap": func(ep uct.Endpoint, addr uint64, key *uct.Rkey) error {
					var old uint32
					return ep.(uct.Atomic).AtomicCSwap32(1, 2, addr, key, &old, nil)
				},
			} {
				t.Run(fmt.Sprint(name, " told ", told), func(t *testing.T) {
					t.Cleanup(func() { reclaim(defaultDir) }) // a container may have 64 MB there
					h, p, ep := survivor(t, transport, s)
					key, err := h.Domain.UnpackRkey(p.key)
					if err != nil {
						t.Fatal(err)
					}
					if !told {
						h.Iface.(*iface).watcher.Release(1)
					}
					if err := access(ep, p.mem, key); err != nil {
						t.Fatal(err)
					}
					p.kill()
					n := 0
					for err = nil; err == nil && n < most; n++ {
						err = access(ep, p.mem, key)
					}
					ucttest.WantStatus(t, "access", err, ucs.ErrConnectionReset)
					ucttest.WantStatus(t, "access after it", access(ep, p.mem, key), ucs.ErrConnectionReset)
					if len(h.Failures) > 0 {
						t.Error("told without progress")
					}
					ucttest.Until(t, "the failure", func() bool { return h.Failed(ep) != nil }, h)
					if err := h.Domain.ReleaseRkey(key); err != nil {
						t.Error(err)
					}
				})
			}
		}
	})
}

// TestSlowAccessAfterExit: a caller that accesses memory rarely gets the error within a few
// accesses, even after many fast ones.
func TestSlowAccessAfterExit(t *testing.T) {
	if moment == 0 {
		t.Skip("the processor has no counter")
	}
	h, p, ep := survivor(t, posixName, "")
	e := ep.(*endpoint)
	key, err := h.Domain.UnpackRkey(p.key)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Domain.ReleaseRkey(key)
	put := func() error { return e.PutShort(make([]byte, 8), p.mem, key) }
	for range 10_000 {
		if err := put(); err != nil {
			t.Fatal(err)
		}
	}
	p.kill()
	n := 0
	for ; put() == nil; n++ {
		if n > opsBetween {
			t.Fatalf("not told by %d accesses", n)
		}
		e.exit.asked -= 1 << 40 // much time passes
	}
}
