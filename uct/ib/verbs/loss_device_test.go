//go:build linux

package verbs_test

import (
	"bytes"
	"encoding/binary"
	"os/exec"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestLoss makes the network between two devices of the virtual machine lose, duplicate, reorder
// and corrupt packets. A reliable connection must lose, duplicate and reorder nothing, and the
// devices must have counted their repairs.
func TestLoss(t *testing.T) {
	ours(t)
	// This fails if the module is loaded already.
	exec.Command("insmod", "/modules/sch_netem.ko").Run()
	for _, c := range []struct {
		name, netem string
		counters    []string // at least one increases
	}{
		{"loss", "loss 5%", []string{"completer_retry_err", "out_of_seq_request"}},
		{"duplicate", "duplicate 10%", []string{"duplicate_request"}},
		{"reorder", "delay 1ms reorder 25%", []string{"out_of_seq_request", "completer_retry_err"}},
		{"corrupt", "corrupt 5%", []string{"completer_retry_err", "out_of_seq_request"}},
		{"all", "delay 1ms loss 5% duplicate 5% reorder 25% corrupt 1%", []string{"duplicate_request"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ours(t)
			a, b := r.pair(t, verbs.RC, func(a *verbs.QPAttr) { a.RetryCount, a.RNRRetry, a.Timeout = 7, 7, 12 }) // forever, after 17 ms
			was := r.counters(t, c.counters)
			for _, d := range []string{r.netdev(t), r.peer.netdev(t)} {
				command(t, "tc qdisc add dev "+d+" root netem "+c.netem)
				t.Cleanup(func() { command(t, "tc qdisc del dev "+d+" root") })
			}
			rounds := r.often(0, 25, 500)
			for i := range rounds {
				lossy(t, a, b, i)
			}
			// Continue until at least one packet was affected.
			n := rounds
			for ; r.counters(t, c.counters) == was && n < 1000; n++ {
				lossy(t, a, b, n)
			}
			t.Logf("%d rounds; %s: %d", n, strings.Join(c.counters, "+"), r.counters(t, c.counters)-was)
			if r.counters(t, c.counters) == was {
				t.Error("the network did no harm")
			}
			if a.state(t) != verbs.QPRTS || b.state(t) != verbs.QPRTS {
				t.Errorf("the queue pairs are in %v and %v", a.qp.State(), b.qp.State())
			}
		})
	}
}

// lossy does round i of a connection: sends and writes in one batch, then reads and atomics. In one
// batch they would show a defect of rdma_rxe: it takes the acknowledgment of a repeated send, which
// names the last request seen, for the answer of a later atomic, and completes that without its
// data (check_ack, drivers/infiniband/sw/rxe/rxe_comp.c, duplicate_request, rxe_resp.c; Linux 6.1).
func lossy(t *testing.T, a, b *side, i int) {
	t.Helper()
	const n = 9000                   // several packets
	const word, found = 60000, 62000 // offsets of the atomic word, and of the results
	if i == 0 {
		binary.NativeEndian.PutUint64(b.buf[word:], 0)
	}
	fill(a.buf[:n], byte(i))
	clear(a.buf[n : 2*n])
	for k := range 4 {
		b.recv(t, verbs.RecvWR{ID: uint64(4*i + k), SGList: b.at(n*k, n)})
		binary.NativeEndian.PutUint64(a.buf[found+8*k:], ^uint64(0))
	}
	to := func(op verbs.WROpcode, off, n, remote int) verbs.SendWR {
		return verbs.SendWR{ID: uint64(i), Opcode: op, SGList: a.at(off, n), RemoteAddr: b.mr.Addr() + uint64(remote), RKey: b.mr.RKey(), CompareAdd: 1, Imm: uint32(i)}
	}
	do := func(op verbs.WCOpcode, wr ...verbs.SendWR) {
		t.Helper()
		wr[len(wr)-1].Flags = verbs.SendSignaled
		a.send(t, wr...)
		a.done(t, uint64(i), op)
	}
	do(verbs.WCSend, to(verbs.WRSend, 0, n, 0), to(verbs.WRSendWithImm, 0, n, 0), to(verbs.WRRDMAWrite, 0, n, 4*n),
		to(verbs.WRRDMAWriteWithImm, 0, n/2, 5*n), to(verbs.WRSend, 100, 8, 0))
	for range 4 { // until repeated packets in flight have arrived
		do(verbs.WCFetchAdd, to(verbs.WRAtomicFetchAndAdd, found+32, 8, word+8))
	}
	// Three additions, and a compare-and-swap that undoes one.
	swap := to(verbs.WRAtomicCmpAndSwp, found+16, 8, word)
	swap.CompareAdd, swap.Swap = uint64(2*i+2), uint64(2*i+1)
	do(verbs.WCFetchAdd, to(verbs.WRAtomicFetchAndAdd, found, 8, word), to(verbs.WRRDMARead, n, n, 4*n), // what was written
		to(verbs.WRAtomicFetchAndAdd, found+8, 8, word), swap, to(verbs.WRAtomicFetchAndAdd, found+24, 8, word))
	for k, want := range []struct {
		op  verbs.WCOpcode
		len int
		imm uint32
	}{{verbs.WCRecv, n, 0}, {verbs.WCRecv, n, uint32(i)}, {verbs.WCRecvRDMAWithImm, n / 2, uint32(i)}, {verbs.WCRecv, 8, 0}} {
		wc := b.done(t, uint64(4*i+k), want.op)
		if int(wc.ByteLen) != want.len || wc.Imm != want.imm {
			t.Fatalf("round %d, message %d: %+v", i, k, wc)
		}
	}
	for what, got := range map[string][]byte{"sent": b.buf[:n], "sent with immediate": b.buf[n : 2*n], "written": b.buf[4*n : 5*n],
		"read": a.buf[n : 2*n], "written with immediate": b.buf[5*n : 5*n+n/2], "sent last": b.buf[3*n : 3*n+8]} {
		from := 0
		if len(got) == 8 {
			from = 100
		}
		if !bytes.Equal(got, a.buf[from:from+len(got)]) {
			t.Fatalf("round %d: wrong bytes %s", i, what)
		}
	}
	// Each atomic was executed once: it returned the result of those before it.
	for k, want := range []uint64{uint64(2 * i), uint64(2*i + 1), uint64(2*i + 2), uint64(2*i + 1)} {
		if old := binary.NativeEndian.Uint64(a.buf[found+8*k:]); old != want {
			t.Errorf("round %d: atomic %d found %d, want %d", i, k, old, want)
		}
	}
	if now := binary.NativeEndian.Uint64(b.buf[word:]); now != uint64(2*i+2) {
		t.Fatalf("round %d: the word is %d", i, now)
	}
}

// counters returns the sum of counters of both devices.
func (r *rig) counters(t *testing.T, names []string) int {
	t.Helper()
	sum := 0
	for _, d := range []string{"rxe0", "rxe1"} {
		for _, n := range names {
			sum += counter(t, d, n)
		}
	}
	return sum
}

// netdev returns the network interface of the device.
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
