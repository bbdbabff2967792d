//go:build linux

package verbs_test

import (
	"encoding/binary"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// muffled is a device that counts doorbells and ignores them.
type muffled struct {
	uverbs.File
	rung int
}

func (m *muffled) Write(b []byte) (int, syscall.Errno) {
	m.rung++
	return len(b), 0
}

// muffledPair returns a queue pair that is connected to itself, with room for n requests.
func muffledPair(t testing.TB, n int) (*verbstest.Kernel, *muffled, *verbs.QP, *verbs.CQ, *verbs.MR) {
	k := verbstest.New()
	m := &muffled{File: k.Open()}
	qp, cq, mr := selfPair(t, m, n)
	return k, m, qp, cq, mr
}

// selfPair returns a queue pair of a device, connected to itself.
func selfPair(t testing.TB, f uverbs.File, n int) (*verbs.QP, *verbs.CQ, *verbs.MR) {
	c, err := verbs.NewContext(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	pd, err := c.AllocPD()
	ok(err)
	cq, err := c.CreateCQ(2*n, nil, 0)
	ok(err)
	qp, err := pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: n, MaxRecvWR: 1, MaxSendSGE: 1, MaxInline: 64}})
	ok(err)
	mr, err := pd.RegMR(make([]byte, 4096), fullAccess)
	ok(err)
	gid, err := c.DefaultGID(1)
	ok(err)
	a := &verbs.QPAttr{Port: 1, Access: fullAccess, PathMTU: verbs.MTU4096, DestQPN: qp.QPN(), AH: gid.To(gid.GID)}
	ok(qp.Init(a))
	ok(qp.Connect(a))
	return qp, cq, mr
}

// TestOneBell checks that a batch rings the doorbell once, and an empty batch not at all.
func TestOneBell(t *testing.T) {
	k, m, qp, cq, mr := muffledPair(t, 64)
	wr := make([]verbs.SendWR, 32)
	for i := range wr {
		wr[i] = verbs.SendWR{ID: uint64(i), Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGList: []verbs.SGE{mr.SGE(0, 8)},
			RemoteAddr: mr.Addr() + 8, RKey: mr.RKey()}
	}
	if n, err := qp.PostSend(wr); n != 32 || err != nil || m.rung != 1 {
		t.Errorf("%d posted, %d bells: %v", n, m.rung, err)
	}
	if n, err := qp.PostSend([]verbs.SendWR{{Opcode: 99}}); n != 0 || err == nil || m.rung != 1 {
		t.Errorf("%d posted, %d bells: %v", n, m.rung, err)
	}
	p := qp.Begin()
	for i := range 5 {
		p.Write(uint64(i), verbs.SendSignaled, mr.Addr()+8, mr.RKey())
		p.Inline(mr.Bytes()[:8])
	}
	if m.rung != 1 {
		t.Error("a bell before Ring")
	}
	if n, err := p.Ring(); n != 5 || err != nil || m.rung != 2 {
		t.Errorf("%d posted, %d bells: %v", n, m.rung, err)
	}
	k.Progress()
	if n := cq.Poll(make([]verbs.WC, 64)); n != 37 {
		t.Errorf("%d completions", n)
	}
}

// instant is a device that completes all requests successfully when the doorbell rings, at almost
// no cost, so that a benchmark measures only posting and polling.
type instant struct {
	uverbs.File
	cq, sq []byte // the rings, in the order of their mapping
}

// The offsets in struct rxe_queue_buf (rdma/rdma_user_rxe.h), and that of the data after it.
const (
	ringLog2Size = 0
	ringMask     = 4
	ringProducer = 128
	ringConsumer = 256
	ringData     = 384
)

func (d *instant) Mmap(off uint64, n int) ([]byte, syscall.Errno) {
	b, e := d.File.Mmap(off, n)
	switch {
	case d.cq == nil:
		d.cq = b
	case d.sq == nil:
		d.sq = b
	}
	return b, e
}

func (d *instant) Write(b []byte) (int, syscall.Errno) {
	at := binary.NativeEndian.Uint32(d.cq[ringProducer:])
	d.cq[ringData+int(at)<<d.cq[ringLog2Size]] = 1 // of its id
	binary.NativeEndian.PutUint32(d.cq[ringProducer:], (at+1)&binary.NativeEndian.Uint32(d.cq[ringMask:]))
	binary.NativeEndian.PutUint32(d.sq[ringConsumer:], binary.NativeEndian.Uint32(d.sq[ringProducer:]))
	return len(b), 0
}

// BenchmarkPostPoll posts and polls single small writes.
func BenchmarkPostPoll(b *testing.B) {
	for _, c := range []struct {
		name  string
		flags verbs.SendFlags
		post  func(*verbs.QP, *verbs.MR) // nil for PostSend
	}{
		{"inline", verbs.SendInline, nil},
		{"sge", 0, nil},
		{"post-inline", 0, func(qp *verbs.QP, mr *verbs.MR) {
			p := qp.Begin()
			p.Write(0, verbs.SendSignaled, mr.Addr()+64, mr.RKey())
			p.Inline(mr.Bytes()[:8])
			p.Ring()
		}},
		{"post-sge", 0, func(qp *verbs.QP, mr *verbs.MR) {
			p := qp.Begin()
			p.Write(0, verbs.SendSignaled, mr.Addr()+64, mr.RKey())
			p.SGE(mr.SGE(0, 8))
			p.Ring()
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := &instant{File: verbstest.New().Open()}
			qp, cq, mr := selfPair(b, d, 100)
			wr := []verbs.SendWR{{Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled | c.flags, Inline: [][]byte{mr.Bytes()[:8]},
				SGList: []verbs.SGE{mr.SGE(0, 8)}, RemoteAddr: mr.Addr() + 64, RKey: mr.RKey()}}
			wc := make([]verbs.WC, 1)
			b.ReportAllocs()
			for b.Loop() {
				if c.post != nil {
					c.post(qp, mr)
				} else {
					qp.PostSend(wr)
				}
				if cq.Poll(wc) != 1 || wc[0].Status != verbs.WCSuccess {
					b.Fatalf("%+v", wc[0])
				}
			}
		})
	}
}
