//go:build linux

package rc_test

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// patient are settings for devices that the kernel makes in a slow machine: a peer is gone
// after two seconds and not after eight.
var patient = []string{"RC_VERBS_TIMEOUT", "200ms"}

// real is a fixture of a device of this machine.
func real(t testing.TB, device string, pairs ...string) ucttest.Fixture {
	t.Helper()
	list := uct.Components()
	k := slices.IndexFunc(list, func(c uct.Component) bool { return c.Name() == "ib" })
	return ucttest.Fixture{
		Component: list[k], Domain: device, Transport: "rc_verbs", Config: settings(t, append(slices.Clone(patient), pairs...)...),
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
			ucttest.Run(t, real(t, name, w.pairs...))
		})
	}
}

// TestDeviceAcross sends between two devices: all kinds of messages, far more than the window,
// both ways at once, and puts and gets.
func TestDeviceAcross(t *testing.T) {
	for _, w := range ways[:2] {
		t.Run(w.name, func(t *testing.T) { testDeviceAcross(t, w.pairs) })
	}
}

func testDeviceAcross(t *testing.T, pairs []string) {
	ucttest.NoLeaks(t)
	a, b := across(t, pairs...)
	ab, ba := a.ConnectPair(t, b)
	attr := a.Iface.Attr()
	kinds := ucttest.KindsOf(attr)
	atA, atB := a.Collect(t, 1), b.Collect(t, 2)
	const count = 3000
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
	mem := b.Expose(t, make([]byte, 1<<20), uct.AccessAll)
	key := a.Key(t, mem)
	rma := ab.(uct.RMA)
	src, dst := ucttest.Pattern(1<<20, 5), make([]byte, 1<<20)
	from, into := a.IOV(t, src), a.IOV(t, dst)
	c := ucttest.NewCompletion(1)
	c.Finish(t, ucttest.Accept(t, func() error { return rma.PutZcopy([]uct.IOV{from}, mem.Addr, key, &c.Completion) }, a, b), a, b)
	ucttest.SameBytes(t, "what was put", mem.Bytes, src)
	c = ucttest.NewCompletion(1)
	c.Finish(t, ucttest.Accept(t, func() error { return rma.GetZcopy([]uct.IOV{into}, mem.Addr, key, &c.Completion) }, a, b), a, b)
	ucttest.SameBytes(t, "what was got", dst, src)
}

// TestDeviceLossy puts and gets much over a network that loses five packets of a hundred:
// nobody is given up.
func TestDeviceLossy(t *testing.T) {
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("no link of two devices that is ours; make test-rxe has one")
	}
	a, b := across(t, "RC_VERBS_TIMEOUT", "10ms")
	ep, _ := a.ConnectPair(t, b)
	rma, mem := ep.(uct.RMA), b.Expose(t, make([]byte, 1<<20), uct.AccessAll)
	key := a.Key(t, mem)
	src, dst := ucttest.Pattern(1<<20, 5), make([]byte, 1<<20)
	from, into := a.IOV(t, src), a.IOV(t, dst)
	exec.Command("insmod", "/modules/sch_netem.ko").Run() // loaded already, if this is not the first time
	for _, end := range []string{"veth0", "veth1"} {
		run(t, "tc qdisc add dev "+end+" root netem loss 5%")
		defer run(t, "tc qdisc del dev "+end+" root")
	}
	for range 10 {
		clear(dst)
		c := ucttest.NewCompletion(1)
		c.Finish(t, rma.PutZcopy([]uct.IOV{from}, mem.Addr, key, &c.Completion), a, b)
		c = ucttest.NewCompletion(1)
		c.Finish(t, rma.GetZcopy([]uct.IOV{into}, mem.Addr, key, &c.Completion), a, b)
		ucttest.SameBytes(t, "what was put and got", dst, src)
	}
}

// run runs commands, which must not fail.
func run(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		f := strings.Fields(line)
		if out, err := exec.Command(f[0], f[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
}

// TestDeviceEnds makes and ends endpoints with much under way, and looks whether the device
// still has buffers to receive into afterwards: queue pairs take some with them that end in
// the middle of a message.
func TestDeviceEnds(t *testing.T) {
	ucttest.NoLeaks(t)
	a, b := across(t, "RC_VERBS_RX_QUEUE_LEN", "64")
	got := b.Collect(t, 1)
	for range 100 {
		ep, back := a.ConnectPair(t, b)
		for range 20 {
			if _, err := ep.AMBcopy(1, &ucttest.Packer{Data: make([]byte, 8000)}, 0, nil); err != nil {
				break
			}
		}
		ep.Close()
		back.Close()
	}
	ucttest.Settle(a, b)
	got.Take()
	ep, _ := a.ConnectPair(t, b)
	for k := range uint64(200) {
		ucttest.Accept(t, func() error { return ep.AMShort(1, k, nil, 0, nil) }, a, b)
	}
	got.Wait(t, 200, a, b)
	free, total := rc.Credits(a.Iface)
	if rc.Limbo(a.Iface) != 0 || free < total/2 {
		t.Errorf("%d of %d credits, %d in limbo", free, total, rc.Limbo(a.Iface))
	}
}

// TestDeviceFailures: a peer that is gone, and one that does not let us.
func TestDeviceFailures(t *testing.T) {
	a, b := across(t, "RC_VERBS_TIMEOUT", "10ms")
	gone, back := a.ConnectPair(t, b)
	bad, _ := a.ConnectPair(t, b)
	back.Close()
	check(t, gone.AMShort(1, 2, nil, 0, nil))
	check(t, bad.(uct.RMA).PutShort([]byte("x"), 4096, &uct.Rkey{Value: 0xffffffff00000001}))
	ucttest.Until(t, "both failures", func() bool {
		gone.(uct.Checker).Check(nil) // soft-RoCE would try for ever
		return len(a.Failures) == 2
	}, a, b)
	if err := a.Failed(gone); !errors.Is(err, ucs.ErrEndpointTimeout) {
		t.Errorf("a peer that is gone: %v", err)
	}
	if err := a.Failed(bad); !errors.Is(err, ucs.ErrConnectionReset) {
		t.Errorf("a bad access: %v", err)
	}
}

// TestDeviceLink takes the link down and up: who has nothing to say goes on, who sends
// meanwhile does not.
func TestDeviceLink(t *testing.T) {
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("no link of two devices that is ours; make test-rxe has one")
	}
	a, b := across(t)
	idle, _ := a.ConnectPair(t, b)
	busy, _ := a.ConnectPair(t, b)
	got := b.Collect(t, 1)
	check(t, idle.AMShort(1, 1, nil, 0, nil))
	got.Wait(t, 1, a, b)
	up := []string{ // as scripts/vm-init made it
		"ip link set veth0 up", "ip link set veth1 up",
		"ip route replace 10.9.0.2/32 dev veth0 src 10.9.0.1 table 101",
		"ip route replace 10.9.0.1/32 dev veth1 src 10.9.0.2 table 101",
	}
	t.Cleanup(func() { run(t, up...) })
	run(t, "ip link set veth0 down")
	check(t, busy.AMShort(1, 2, nil, 0, nil))
	ucttest.Until(t, "the failure of who sends", func() bool { return a.Failed(busy) != nil }, a, b)
	run(t, up...)
	ucttest.Settle(a, b)
	if err := a.Failed(idle); err != nil {
		t.Errorf("who did not send: %v", err)
	}
	check(t, idle.AMShort(1, 3, nil, 0, nil))
	got.Wait(t, 2, a, b)
}
