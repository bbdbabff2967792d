//go:build linux

package verbs_test

import (
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// TestKernelAllocations checks that no operation of a simulated device allocates, so that tests of
// upper layers can check their own allocations.
func TestKernelAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	r := fabricRig(t)
	a, b := r.pair(t, verbs.RC)
	srq := must(b.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 8, MaxSGE: 2}))(t)
	check(t, b.qp.Close())
	b.newQP(t, verbs.RC, func(a *verbs.QPInitAttr) { a.SRQ = srq })
	check(t, a.qp.Close())
	a.newQP(t, verbs.RC)
	a.up(t, b)
	b.up(t, a)
	u, v := ends(t, r)
	path := r.local.To(r.peer.gid)
	ah := must(u.pd.CreateAH(&path))(t)
	wc := make([]verbs.WC, 8)
	remote := func(op verbs.WROpcode, n int) verbs.SendWR {
		return verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, SGList: a.at(0, n), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	}
	inline := verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled | verbs.SendInline, Inline: [][]byte{a.buf[:1], a.buf[:30]}}
	pieces := verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: []verbs.SGE{a.mr.SGE(0, 9), a.mr.SGE(100, 5000), a.mr.SGE(9000, 1)}}
	gram := verbs.SendWR{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: u.at(0, 1000), AH: ah, RemoteQPN: v.qp.QPN(), RemoteQKey: qkey}
	for _, c := range []struct {
		name     string
		from, to *side
		wr       verbs.SendWR
		receives int
	}{
		{"send", a, b, remote(verbs.WRSend, 100), 1},
		{"inline", a, b, inline, 1},
		{"pieces", a, b, pieces, 1},
		{"large", a, b, remote(verbs.WRSend, 20000), 1},
		{"immediate", a, b, remote(verbs.WRSendWithImm, 8), 1},
		{"write", a, b, remote(verbs.WRRDMAWrite, 4096), 0},
		{"write with immediate", a, b, remote(verbs.WRRDMAWriteWithImm, 4096), 1},
		{"read", a, b, remote(verbs.WRRDMARead, 4096), 0},
		{"add", a, b, remote(verbs.WRAtomicFetchAndAdd, 8), 0},
		{"swap", a, b, remote(verbs.WRAtomicCmpAndSwp, 8), 0},
		{"datagram", u, v, gram, 1},
	} {
		wr := []verbs.SendWR{c.wr}
		recv := []verbs.RecvWR{{SGList: []verbs.SGE{c.to.mr.SGE(0, 40), c.to.mr.SGE(100, 30000)}}}
		n := testing.AllocsPerRun(100, func() {
			if c.to == b {
				srq.PostRecv(recv[:c.receives])
			} else {
				v.qp.PostRecv(recv)
			}
			c.from.qp.PostSend(wr)
			r.kernel.Progress()
			if k := c.from.cq.Poll(wc); k != 1 || wc[0].Status != verbs.WCSuccess {
				t.Fatalf("%s: %d completions, %+v", c.name, k, wc[0])
			}
			if k := c.to.cq.Poll(wc); k != c.receives || k == 1 && wc[0].Status != verbs.WCSuccess {
				t.Fatalf("%s: %d completions at the receiver, %+v", c.name, k, wc[0])
			}
		})
		if n != 0 {
			t.Errorf("%s allocates %v times", c.name, n)
		}
	}
}

// BenchmarkKernel sends a message of 8 bytes through a simulated device, including the doorbell and
// the work of the device.
func BenchmarkKernel(b *testing.B) {
	qp, cq, mr := selfPair(b, verbstest.New().Open(), 64)
	message := func(op verbs.WROpcode) verbs.SendWR {
		return verbs.SendWR{Opcode: op, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mr.SGE(0, 8)}, RemoteAddr: mr.Addr() + 8, RKey: mr.RKey()}
	}
	for _, c := range []struct {
		name        string
		wr          verbs.SendWR
		completions int
	}{{"write", message(verbs.WRRDMAWrite), 1}, {"read", message(verbs.WRRDMARead), 1}, {"send", message(verbs.WRSend), 2}} {
		b.Run(c.name, func(b *testing.B) {
			wr, wc := []verbs.SendWR{c.wr}, make([]verbs.WC, 2)
			recv := []verbs.RecvWR{{SGList: []verbs.SGE{mr.SGE(100, 8)}}}
			b.ReportAllocs()
			for b.Loop() {
				qp.PostRecv(recv[:c.completions-1])
				qp.PostSend(wr)
				if cq.Poll(wc) != c.completions || wc[0].Status != verbs.WCSuccess {
					b.Fatalf("%+v", wc[0])
				}
			}
		})
	}
}
