package verbs_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestLoss has the network between two devices of the virtual machine lose,
// duplicate and reorder packets: nothing of a reliable connection is lost.
func TestLoss(t *testing.T) {
	deviceRig(t)
	if os.Getenv("VM_NET") != "veth" {
		t.Skip("only the network of make test-rxe's VM is ours to spoil")
	}
	r := openRig(t, named(t, "rxe0"))
	r.peer = openRig(t, named(t, "rxe1"))
	a, b := r.pair(t, verbs.RC)
	// Loaded already if this is not the first time.
	exec.Command("insmod", "/modules/sch_netem.ko").Run()
	for _, d := range []string{r.netdev(t), r.peer.netdev(t)} {
		tc := func(args ...string) {
			t.Helper()
			if out, err := exec.Command("tc", args...).CombinedOutput(); err != nil {
				t.Fatalf("tc %v: %v: %s", args, err, out)
			}
		}
		tc(strings.Fields("qdisc add dev " + d + " root netem delay 1ms loss 5% duplicate 5% reorder 25%")...)
		t.Cleanup(func() { tc("qdisc", "del", "dev", d, "root") })
	}
	rounds := 30
	if os.Getenv("RXE_LONG") != "" {
		rounds = 1000
	}
	const n = 20000 // several packets
	for i := range rounds {
		fill(a.buf[:n], byte(i))
		b.recv(t, verbs.RecvWR{ID: uint64(i), SGList: b.at(0, n)})
		a.send(t, verbs.SendWR{Opcode: verbs.WRSend, SGList: a.at(0, n)},
			verbs.SendWR{Opcode: verbs.WRRDMAWrite, SGList: a.at(0, n), RemoteAddr: b.mr.Addr() + n, RKey: b.mr.RKey()},
			verbs.SendWR{ID: uint64(i), Opcode: verbs.WRRDMARead, Flags: verbs.SendSignaled, SGList: a.at(n, n), RemoteAddr: b.mr.Addr() + n, RKey: b.mr.RKey()})
		a.done(t, uint64(i), verbs.WCRDMARead)
		b.done(t, uint64(i), verbs.WCRecv)
		if !bytes.Equal(b.buf[:n], a.buf[:n]) || !bytes.Equal(b.buf[n:2*n], a.buf[:n]) || !bytes.Equal(a.buf[n:2*n], a.buf[:n]) {
			t.Fatalf("round %d: wrong bytes", i)
		}
	}
	if a.state(t) != verbs.QPRTS || b.state(t) != verbs.QPRTS {
		t.Errorf("the queue pairs are in %v and %v", a.qp.State(), b.qp.State())
	}
}

// netdev is the network interface below the device.
func (r *rig) netdev(t *testing.T) string {
	t.Helper()
	list, err := devices()
	check(t, err)
	for _, d := range list {
		for _, p := range d.Ports {
			for _, g := range p.GIDs {
				if g.GID == r.gid {
					return g.NetDev
				}
			}
		}
	}
	t.Fatalf("no device has GID %v", r.gid)
	return ""
}
