//go:build linux

package ud_test

import (
	"testing"

	"github.com/ucx-go/ucx/uct/ib/internal/rigtest"
	"github.com/ucx-go/ucx/uct/ib/ud"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

func TestDeviceConformance(t *testing.T) { transport.ConformanceDevice(t) }

// exchange sends messages between two hosts in both directions at once.
func exchange(t *testing.T, a, b *ucttest.Host, count int) {
	t.Helper()
	rigtest.Exchange(t, a, b, a.Connect(t, b), b.Connect(t, a), count)
}

func TestDeviceAcross(t *testing.T) {
	for _, w := range ways[:3] {
		t.Run(w.Name, func(t *testing.T) {
			ucttest.NoLeaks(t)
			a, b := transport.Across(t, append([]string{"UD_TIMEOUT", "30s"}, w.Pairs...)...)
			exchange(t, a, b, 3000)
			if len(a.Failures)+len(b.Failures) != 0 {
				t.Errorf("%+v, %+v", a.Failures, b.Failures)
			}
		})
	}
}

// TestDeviceLossy sends through a network that loses, duplicates, reorders and corrupts packets.
func TestDeviceLossy(t *testing.T) {
	rigtest.NeedLink(t)
	for _, netem := range []string{"loss 5%", "loss 20%", "delay 2ms 1ms 25% duplicate 5%", "corrupt 5%"} {
		t.Run(netem, func(t *testing.T) {
			a, b := transport.Across(t, "UD_TIMEOUT", "30s")
			rigtest.Impair(t, netem)
			exchange(t, a, b, 500)
			c := ud.Counters(a.Iface)
			t.Logf("%d packets sent again, %d losses found by NACK, %d by time", c.Resent, c.NackLosses, c.Timeouts)
		})
	}
}

// TestDeviceLinkDown takes the link of a connection down and up: soft-RoCE breaks queue pairs whose
// packets have no route.
func TestDeviceLinkDown(t *testing.T) {
	rigtest.NeedLink(t)
	a, b := transport.Across(t, "UD_TIMEOUT", "30s")
	got := b.Collect(t, 1)
	ep := a.Connect(t, b)
	send := func() { t.Helper(); ucttest.Accept(t, func() error { return ep.AMShort(1, 1, nil, 0, nil) }, a, b) }
	send()
	got.Wait(t, 1, a, b)
	rigtest.Shell(t, "ip link set veth1 down")
	send()
	ucttest.Settle(a, b)
	rigtest.Shell(t, "ip link set veth1 up")
	got.Wait(t, 2, a, b)
	if len(a.Failures)+len(b.Failures) != 0 {
		t.Errorf("%+v, %+v", a.Failures, b.Failures)
	}
}

// TestDeviceStorm sends hostile packets from a queue pair of a kernel device to an interface, while
// another connection of that interface works.
func TestDeviceStorm(t *testing.T) {
	rigtest.NeedLink(t)
	quietly(t)
	h, a := transport.Across(t, "UD_TIMEOUT", "30s")
	ctx, err := verbs.OpenDevice("", "rxe1")
	check(t, err)
	p := scriptedPeerOn(t, ctx, h)
	got := h.Collect(t, 5)
	ep := a.Connect(t, h)
	sent := 0
	p.storm(6000, func() {
		ucttest.Accept(t, func() error { return ep.AMShort(5, 1, nil, 0, nil) }, a, h)
		sent++
		got.Wait(t, sent, a, h)
		if n := ud.Connections(h.Iface); n > maxEmbryos+2 {
			t.Fatalf("%d connections", n)
		}
	})
	c := ud.Counters(h.Iface)
	t.Logf("%d connections: %+v", ud.Connections(h.Iface), c)
	if c.Passive == 0 || c.Refused == 0 || c.Malformed == 0 || c.Short == 0 || c.Unknown == 0 || c.WrongSource == 0 || len(h.Failures) != 0 {
		t.Errorf("%+v, %+v", c, h.Failures)
	}
}
