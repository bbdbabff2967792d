//go:build linux

package ud_test

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ud"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// real is a fixture of a device of this machine. Where the machine is slow, peers that are
// gone are found out less soon.
func real(t testing.TB, device string, pairs ...string) ucttest.Fixture {
	t.Helper()
	list := uct.Components()
	k := slices.IndexFunc(list, func(c uct.Component) bool { return c.Name() == "ib" })
	return ucttest.Fixture{
		Component: list[k], Domain: device, Transport: "ud_verbs", Silent: true,
		Config: settings(t, append([]string{"UD_TIMEOUT", "2s"}, pairs...)...),
	}
}

// across opens hosts on both devices of the virtual machine, or twice on the only one.
func across(t testing.TB, pairs ...string) (a, b *ucttest.Host) {
	t.Helper()
	name := rdmatest.Device(t)
	f := real(t, name, pairs...)
	a = f.Open(t)
	if os.Getenv("VM_NET") == "veth" {
		f = real(t, "rxe1", pairs...)
	}
	return a, f.Open(t)
}

// TestDeviceConformance is the suite on a device that is no fake; with other settings than the
// defaults in the long form, TestDeviceAcross has them always.
func TestDeviceConformance(t *testing.T) {
	name := rdmatest.Device(t)
	list := ways[:3]
	if os.Getenv("RXE_LONG") == "" {
		list = ways[:1]
	}
	for _, w := range list {
		t.Run(w.name, func(t *testing.T) {
			f := real(t, name, w.pairs...)
			f.Skip = w.skip
			ucttest.Run(t, f)
		})
	}
}

// exchange sends between two hosts: all kinds of messages that are copied, far more than the
// window, both ways at once.
func exchange(t *testing.T, a, b *ucttest.Host, count int) {
	t.Helper()
	ab, ba := a.Connect(t, b), b.Connect(t, a)
	kinds := ucttest.KindsOf(a.Iface.Attr())
	atA, atB := a.Collect(t, 1), b.Collect(t, 2)
	sa := &ucttest.Sender{T: t, From: a, Endpoint: ab, ID: 2}
	sb := &ucttest.Sender{T: t, From: b, Endpoint: ba, ID: 1}
	for k := range uint64(count) {
		kind := &kinds[k%3] // those that are not zcopy, which registers anew each time
		ucttest.Accept(t, func() error { return sa.Number(kind, k) }, a, b)
		ucttest.Accept(t, func() error { return sb.Number(kind, k) }, a, b)
	}
	atA.Wait(t, count, a, b)
	atB.Wait(t, count, a, b)
	for k := range count {
		if !slices.Equal(atA.Messages[k].Data, atB.Messages[k].Data) || atA.Messages[k].Data[0] != byte(k) || atA.Messages[k].Data[1] != byte(k>>8) {
			t.Fatalf("message %d: %x and %x", k, atA.Messages[k].Data, atB.Messages[k].Data)
		}
	}
}

func TestDeviceAcross(t *testing.T) {
	for _, w := range ways[:3] {
		t.Run(w.name, func(t *testing.T) {
			ucttest.NoLeaks(t)
			a, b := across(t, append([]string{"UD_TIMEOUT", "30s"}, w.pairs...)...)
			exchange(t, a, b, 3000)
			if len(a.Failures)+len(b.Failures) != 0 {
				t.Errorf("%+v, %+v", a.Failures, b.Failures)
			}
		})
	}
}

// command runs a command of the virtual machine.
func command(t *testing.T, line string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

// TestDeviceLossy sends through a network that loses, doubles and reorders packets.
func TestDeviceLossy(t *testing.T) {
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("the network that is to be spoiled is that of the virtual machine")
	}
	exec.Command("insmod", "/modules/sch_netem.ko").Run()
	for _, netem := range []string{"loss 5%", "loss 20%", "delay 2ms 1ms 25% duplicate 5%", "corrupt 5%"} {
		t.Run(netem, func(t *testing.T) {
			a, b := across(t, "UD_TIMEOUT", "30s")
			for _, d := range []string{"veth0", "veth1"} {
				command(t, "tc qdisc add dev "+d+" root netem "+netem)
				t.Cleanup(func() { command(t, "tc qdisc del dev "+d+" root") })
			}
			exchange(t, a, b, 500)
			c := ud.Counters(a.Iface)
			t.Logf("%d packets sent again, %d losses found by NACK, %d by time", c.Resent, c.NackLosses, c.Timeouts)
		})
	}
}

// TestDeviceLinkDown takes the link down under a connection, and up again: soft-RoCE breaks
// queue pairs whose packets have no route.
func TestDeviceLinkDown(t *testing.T) {
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("the link that is to go down is that of the virtual machine")
	}
	a, b := across(t, "UD_TIMEOUT", "30s")
	got := b.Collect(t, 1)
	ep := a.Connect(t, b)
	send := func() { t.Helper(); ucttest.Accept(t, func() error { return ep.AMShort(1, 1, nil, 0, nil) }, a, b) }
	send()
	got.Wait(t, 1, a, b)
	command(t, "ip link set veth1 down")
	send()
	ucttest.Settle(a, b)
	command(t, "ip link set veth1 up")
	got.Wait(t, 2, a, b)
	if len(a.Failures)+len(b.Failures) != 0 {
		t.Errorf("%+v, %+v", a.Failures, b.Failures)
	}
}

// TestDeviceStorm has a queue pair of a device that is no fake storm an interface with
// requests for connections and with what it makes up, while another one works.
func TestDeviceStorm(t *testing.T) {
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("the device of the stranger is that of the virtual machine")
	}
	quietly(t)
	h, a := across(t, "UD_TIMEOUT", "30s")
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
