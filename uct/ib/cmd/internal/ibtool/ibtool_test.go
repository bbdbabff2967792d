//go:build linux

package ibtool

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

func TestFindPort(t *testing.T) {
	ucttest.NoLeaks(t)
	c, err := verbs.NewContext(verbstest.New().Open(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for index, want := range map[int]string{NoIndex: "127.0.0.1", 0: "fe80::200:ff:fe00:0", 2: "::1"} {
		p, err := FindPort(c, 1, index)
		if err != nil || p.GID.GID.Addr().String() != want || p.Num != 1 || p.ActiveMTU != verbs.MTU4096 {
			t.Errorf("index %d: %+v, %v, want %s", index, p, err, want)
		}
	}
	for _, f := range []struct{ port, index int }{{1, 3}, {1, 1 << 20}, {2, NoIndex}, {2, 0}} {
		if p, err := FindPort(c, f.port, f.index); err == nil {
			t.Errorf("%+v: %+v", f, p)
		}
	}
}

func TestTo(t *testing.T) {
	own, peer := verbs.GID{15: 1}, verbs.GID{15: 2}
	roce := Port{Num: 1, PortAttr: verbs.PortAttr{LinkLayer: verbs.LinkEthernet}, GID: verbs.GIDEntry{GID: own, Index: 3, Port: 1}}
	ib := Port{Num: 2, PortAttr: verbs.PortAttr{LinkLayer: verbs.LinkInfiniBand, LID: 1}}
	routed := ib
	routed.GID = verbs.GIDEntry{GID: own, Port: 2}

	a, err := roce.To(peer, 0, 5)
	if err != nil || !a.Global || a.DGID != peer || a.SGIDIndex != 3 || a.Port != 1 || a.SL != 5 {
		t.Errorf("RoCE: %+v, %v", a, err)
	}
	if _, err := roce.To(verbs.GID{}, 4, 0); !errors.Is(err, ucs.ErrUnreachable) {
		t.Errorf("a peer without a GID: %v", err)
	}
	for _, to := range []verbs.GID{{}, peer} {
		if a, err := ib.To(to, 4, 6); err != nil || a.Global || a.DLID != 4 || a.SL != 6 || a.Port != 2 {
			t.Errorf("InfiniBand: %+v, %v", a, err)
		}
	}
	if a, err := routed.To(peer, 4, 0); err != nil || !a.Global || a.DGID != peer || a.DLID != 4 {
		t.Errorf("InfiniBand with GIDs: %+v, %v", a, err)
	}
}

func TestNumber(t *testing.T) {
	for value, want := range map[string]int{"7": 7, "0x10": 16, "010": 8, "100": 100, "-3": -3} {
		if n, err := Number("-x", value, -3, 100); n != want || err != nil {
			t.Errorf("%q: %d, %v", value, n, err)
		}
	}
	for _, value := range []string{"", "x", "101", "-4", "1k", "99999999999999999999"} {
		if n, err := Number("-x", value, -3, 100); err == nil {
			t.Errorf("%q: %d", value, n)
		}
	}
}
