//go:build linux

package shm

import (
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestLookedBefore: a caller that asks about a peer and then makes an endpoint opens the peer's
// ring once, and again only after a round of progress. A ring that was opened and is not used is
// released.
func TestLookedBefore(t *testing.T) {
	for _, transport := range []string{posixName, sysvName} {
		t.Run(transport, func(t *testing.T) {
			noSegments(t)
			ucttest.NoLeaks(t)
			h := fixtureWith(t, transport, "").Open(t)
			peer, other := startPeer(t, transport), startPeer(t, transport)
			i := h.Iface.(*iface)
			m := &countingMapper{mapper: i.domain.m}
			i.domain.m, i.domain.attached.m = m, m
			reach := func(p *goPeer) {
				t.Helper()
				if err := i.Reachable(uct.ReachableParams{DeviceAddr: p.dev, IfaceAddr: p.addr}); err != nil {
					t.Error(err)
				}
			}
			opened := func(want int, when string) {
				t.Helper()
				if m.opened != want {
					t.Errorf("%s: opened %d segments, want %d", when, m.opened, want)
				}
				m.opened = 0
			}
			reach(peer)
			reach(peer)
			_, err := i.FindProcess(uct.ReachableParams{DeviceAddr: peer.dev, IfaceAddr: peer.addr}, func(uct.Process) bool { return false })
			ucttest.WantStatus(t, "a process that nobody wants", err, ucs.ErrRejected)
			opened(1, "asking twice")
			h.NewEndpoint(t, uct.EndpointParams{DeviceAddr: peer.dev, IfaceAddr: peer.addr})
			reach(peer)
			opened(1, "an endpoint") // the buffers behind the ring
			reach(other)
			reach(peer)
			opened(2, "asking about two")
			h.Worker.Progress()
			reach(peer)
			opened(1, "asking after a round")
			for n := i.domain.attached.len(); i.looked.ring != nil; n = i.domain.attached.len() {
				if h.Worker.Progress(); n > 3 {
					t.Fatalf("%d segments attached", n)
				}
			}
		})
	}
}

// TestKin: a mark in a ring identifies a peer of this library; C UCX writes none.
func TestKin(t *testing.T) {
	both(t, func(t *testing.T, f *ucttest.Fixture) {
		a, b := f.Pair(t)
		at := uct.ReachableParams{DeviceAddr: b.Iface.DeviceAddress(), IfaceAddr: b.Iface.Address()}
		i := a.Iface.(*iface)
		if !i.SameLibrary(at) {
			t.Error("a peer of this library is not known as one")
		}
		i.dropCachedRing()
		ring := b.Iface.(*iface).rx.seg.mem[markOffset:]
		clear(ring[:4])
		if i.SameLibrary(at) {
			t.Error("a peer without mark is taken for one of this library")
		}
		at.IfaceAddr = nil
		if i.SameLibrary(at) {
			t.Error("nobody is of this library")
		}
	})
}
