package verbs_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/ib/uverbs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// muffled is a device whose bell is counted and not heard.
type muffled struct {
	uverbs.File
	rung int
}

func (m *muffled) Write(b []byte) (int, syscall.Errno) {
	m.rung++
	return len(b), 0
}

// muffledPair is a queue pair connected to itself, with room for n requests.
func muffledPair(t testing.TB, n int) (*verbstest.Kernel, *muffled, *verbs.QP, *verbs.CQ, *verbs.MR) {
	k := verbstest.New()
	m := &muffled{File: k.Open()}
	c, err := verbs.NewContext(m, 2)
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
	return k, m, qp, cq, mr
}

// TestOneBell: a batch rings once, and an empty queue is not worth a bell of its
// own.
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

// BenchmarkPostPoll is one small write, posted and polled by itself. The time
// of the kernel is not counted, nor are its allocations.
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
			const room = 100
			k, _, qp, cq, mr := muffledPair(b, room)
			wr := []verbs.SendWR{{Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled | c.flags, Inline: [][]byte{mr.Bytes()[:8]},
				SGList: []verbs.SGE{mr.SGE(0, 8)}, RemoteAddr: mr.Addr() + 64, RKey: mr.RKey()}}
			wc := make([]verbs.WC, 1)
			var spent time.Duration
			var allocs, bytes uint64
			var before, after runtime.MemStats
			count := func(work func()) {
				runtime.ReadMemStats(&before)
				start := time.Now()
				work()
				spent += time.Since(start)
				runtime.ReadMemStats(&after)
				allocs += after.Mallocs - before.Mallocs
				bytes += after.TotalAlloc - before.TotalAlloc
			}
			for done := 0; done < b.N; {
				n := min(room, b.N-done)
				count(func() {
					if c.post != nil {
						for range n {
							c.post(qp, mr)
						}
						return
					}
					for range n {
						qp.PostSend(wr)
					}
				})
				k.Progress()
				count(func() {
					for range n {
						if cq.Poll(wc) != 1 || wc[0].Status != verbs.WCSuccess {
							b.Fatalf("%+v", wc[0])
						}
					}
				})
				done += n
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/op")
			b.ReportMetric(float64(allocs)/float64(b.N), "allocs/op")
			b.ReportMetric(float64(bytes)/float64(b.N), "B/op")
		})
	}
}
