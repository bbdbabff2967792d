//go:build linux

package cm

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestPeerAddress checks the address made from a route, and that package ib parses it.
func TestPeerAddress(t *testing.T) {
	far := verbs.GID{0x20, 0x01, 0x0d, 0xb8, 15: 9}
	own := verbs.GID{0xfe, 0xc0, 0, 0, 0, 0, 0, 7, 15: 1}
	for what, c := range map[string]struct {
		attr     verbs.QPAttr
		ethernet bool
		want     ib.Address
	}{
		"RoCE": {
			verbs.QPAttr{PathMTU: verbs.MTU1024, AH: verbs.AHAttr{Global: true, DGID: far, SGIDIndex: 3}}, true,
			ib.Address{Ethernet: true, GID: far, Version: ib.RoCEAny, MTU: verbs.MTU1024, HasIndex: true, GIDIndex: 3},
		},
		"InfiniBand, another subnet": {
			verbs.QPAttr{PathMTU: verbs.MTU2048, AH: verbs.AHAttr{Global: true, DGID: far, SGIDIndex: 1, DLID: 0x12}}, false,
			ib.Address{GID: far, LID: 0x12, Global: true, MTU: verbs.MTU2048, HasIndex: true, GIDIndex: 1},
		},
		"InfiniBand, the same subnet": {
			verbs.QPAttr{PathMTU: verbs.MTU512, AH: verbs.AHAttr{DLID: 0x34}}, false,
			ib.Address{GID: verbs.GID{0xfe, 0xc0, 0, 0, 0, 0, 0, 7}, LID: 0x34, MTU: verbs.MTU512, HasIndex: true},
		},
		"no MTU": {
			verbs.QPAttr{PathMTU: 77, AH: verbs.AHAttr{Global: true, DGID: far}}, true,
			ib.Address{Ethernet: true, GID: far, Version: ib.RoCEAny, HasIndex: true},
		},
	} {
		a, err := peerAddress(&c.attr, c.ethernet, own)
		if err != nil || a != c.want {
			t.Errorf("%s: %+v, %v, want %+v", what, a, err, c.want)
			continue
		}
		if again, err := ib.ParseAddress(a.Append(nil)); err != nil || again != a {
			t.Errorf("%s: %x is read as %+v, %v", what, a.Append(nil), again, err)
		}
	}
	if a, err := peerAddress(&verbs.QPAttr{}, true, own); !errors.Is(err, ucs.ErrUnreachable) {
		t.Errorf("RoCE without a GID: %+v, %v", a, err)
	}
}

// TestDeviceAddresses checks that each end gets the device address of the other, and the index of
// its own GID that leads there.
func TestDeviceAddresses(t *testing.T) {
	for _, at := range []netip.Addr{loopback4, loopback6} {
		f := newRig().fixture(t)
		f.Addr = at
		h := f.Open(t)
		l := h.Listen(t, uct.ListenParams{})
		client := h.Connect(t, l, nil)
		q := h.Request(t)
		h.Accept(t, q, nil)
		ucttest.UntilConn(t, "the answer", client.Up, h)
		want := ib.Address{Ethernet: true, GID: verbs.GIDFromAddr(at), Version: ib.RoCEAny, HasIndex: true, GIDIndex: 1}
		if at.Is6() {
			want.GIDIndex = 2
		}
		for what, b := range map[string][]byte{"the client": client.Opened[0].RemoteDeviceAddr, "the server": q.RemoteDeviceAddr} {
			a, err := ib.ParseAddress(b)
			if err != nil || a != want {
				t.Errorf("%s is told %x: %+v, %v", what, b, a, err)
			}
		}
	}
}

// TestZones checks that link-local addresses get the index of the link as their zone, and that
// others get none.
func TestZones(t *testing.T) {
	p := place{link: 5}
	for in, want := range map[string]string{
		"10.0.0.1:1": "10.0.0.1:1", "[fd08::1%veth8]:1": "[fd08::1]:1", "[fe80::1%veth8]:1": "[fe80::1%5]:1", "[fe80::1]:1": "[fe80::1%5]:1", "[::1]:1": "[::1]:1",
	} {
		if got := p.zoned(netip.MustParseAddrPort(in)); got != netip.MustParseAddrPort(want) {
			t.Errorf("%s: %v, want %s", in, got, want)
		}
	}
}
