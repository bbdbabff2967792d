//go:build linux

package rigtest

import (
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// device returns a fixture with hosts on a device of this machine.
func (x *Transport) device(t testing.TB, name string, pairs ...string) ucttest.Fixture {
	t.Helper()
	list := uct.Components()
	k := slices.IndexFunc(list, func(c uct.Component) bool { return c.Name() == "ib" })
	return ucttest.Fixture{
		Component: list[k], Domain: name, Transport: x.Name, Silent: x.Silent,
		Config: Settings(t, append(slices.Clone(x.DevicePairs), pairs...)...),
	}
}

// Across opens hosts on both devices of the virtual machine, or two hosts on its only device.
func (x *Transport) Across(t testing.TB, pairs ...string) (a, b *ucttest.Host) {
	t.Helper()
	f := x.device(t, rdmatest.Device(t), pairs...)
	a = f.Open(t)
	if os.Getenv("VM_NET") == "veth" {
		f.Domain = "rxe1"
	}
	return a, f.Open(t)
}

// ConformanceDevice runs the suite on a device of the kernel, in the first configuration of x.Ways.
// If the environment variable RXE_LONG is set, it runs the suite in the first three.
func (x *Transport) ConformanceDevice(t *testing.T) {
	name := rdmatest.Device(t)
	list := x.Variants[:3]
	if os.Getenv("RXE_LONG") == "" {
		list = x.Variants[:1]
	}
	for _, w := range list {
		t.Run(w.Name, func(t *testing.T) {
			f := x.device(t, name, w.Pairs...)
			f.Skip = w.Skip
			ucttest.Run(t, f)
		})
	}
}

// NeedLink skips a test if there is no link between the two devices of the virtual machine. A test
// may take this link down and make it lose packets.
func NeedLink(t testing.TB) {
	t.Helper()
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("no link of two devices that is ours; make test-rxe has one")
	}
}

// Shell runs a command line, which must not fail.
func Shell(t testing.TB, line string) {
	t.Helper()
	if out, err := exec.Command("sh", "-c", line).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

// Impair applies parameters of netem(8), such as "loss 5%", to both ends of the link until the test
// ends.
func Impair(t testing.TB, netem string) {
	t.Helper()
	exec.Command("insmod", "/modules/sch_netem.ko").Run() // loaded already, if this is not the first time
	for _, end := range []string{"veth0", "veth1"} {
		Shell(t, "tc qdisc add dev "+end+" root netem "+netem)
		t.Cleanup(func() { Shell(t, "tc qdisc del dev "+end+" root") })
	}
}

// Exchange sends count messages both ways at once, of all kinds that are copied, and checks that
// they arrive in order.
func Exchange(t testing.TB, a, b *ucttest.Host, ab, ba uct.Endpoint, count int) {
	t.Helper()
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
		x, y := atA.Messages[k].Data, atB.Messages[k].Data
		if !slices.Equal(x, y) || x[0] != byte(k) || x[1] != byte(k>>8) {
			t.Fatalf("message %d: %x and %x", k, x, y)
		}
	}
}
