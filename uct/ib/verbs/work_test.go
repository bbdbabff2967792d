//go:build linux

package verbs_test

import (
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// These tests check when simulated devices do their work.

// writes posts n writes of a to b, with the IDs from id on.
func writes(t *testing.T, a, b *side, id uint64, n int) {
	t.Helper()
	for i := range uint64(n) {
		a.send(t, verbs.SendWR{ID: id + i, Opcode: verbs.WRRDMAWrite, Flags: verbs.SendSignaled, SGList: a.at(0, 8), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()})
	}
}

// completed checks that there are n completions, with the IDs from id on.
func (s *side) completed(t *testing.T, id uint64, n int) {
	t.Helper()
	wc := make([]verbs.WC, 100)
	k := s.cq.Poll(wc)
	if k != n {
		t.Errorf("%d completions, want %d", k, n)
	}
	for i := range min(k, n) {
		if wc[i].ID != id+uint64(i) || wc[i].Status != verbs.WCSuccess {
			t.Errorf("%+v (%v), want %d", wc[i], wc[i].Status, id+uint64(i))
		}
	}
}

// TestWorkSteps makes devices work in steps: sends stay outstanding until a step, whatever happens,
// and queue pairs take turns.
func TestWorkSteps(t *testing.T) {
	r := fabricRig(t)
	n := r.kernel.Fabric()
	a, b := r.pair(t, verbs.RC)
	c, d := r.pair(t, verbs.RC)
	n.SetWork(verbstest.InStep)
	writes(t, a, b, 10, 3)
	writes(t, c, d, 20, 2)
	writes(t, b, a, 30, 2)
	check(t, a.cq.ReqNotify(false))
	check(t, d.qp.Modify(&verbs.QPAttr{State: verbs.QPRTS}, verbs.QPAttrState))
	r.kernel.SetLink(1, true)
	for _, s := range []*side{a, b, c} {
		s.completed(t, 0, 0)
	}
	if k := n.Step(0); k != 0 {
		t.Errorf("%d done in no step", k)
	}
	if k := n.Step(2); k != 2 {
		t.Errorf("%d done in 2 steps", k)
	}
	a.completed(t, 10, 1)
	c.completed(t, 20, 1)
	if k := n.Step(3); k != 3 {
		t.Errorf("%d done in 3 steps", k)
	}
	b.completed(t, 30, 1)
	a.completed(t, 11, 1)
	c.completed(t, 21, 1)
	if k := r.peer.kernel.Step(9); k != 1 {
		t.Errorf("%d done by one device", k)
	}
	b.completed(t, 31, 1)
	a.completed(t, 0, 0)
	if k := n.Step(9); k != 1 {
		t.Errorf("%d done in 9 steps", k)
	}
	a.completed(t, 12, 1)
	// Without steps again, all pending work is done.
	writes(t, a, b, 13, 1)
	n.SetWork(verbstest.InBell)
	a.completed(t, 13, 1)
	writes(t, a, b, 14, 1)
	a.completed(t, 14, 1)
}

// TestWorkStepsLosses checks that each loss counts as a step.
func TestWorkStepsLosses(t *testing.T) {
	r := fabricRig(t)
	n := r.kernel.Fabric()
	a, b := r.pair(t, verbs.RC, func(a *verbs.QPAttr) { a.RetryCount, a.RNRRetry = 3, 2 })
	n.SetWork(verbstest.InStep)
	n.SetHook(func(m *verbstest.Message) verbstest.Fate { return verbstest.Fate{Drop: m.Try < 3} })
	writes(t, a, b, 1, 1)
	for i := range 3 {
		if k := n.Step(1); k != 0 || a.cq.Poll(make([]verbs.WC, 1)) != 0 {
			t.Errorf("done after %d losses", i)
		}
	}
	if k := n.Step(1); k != 1 {
		t.Error("not done")
	}
	a.completed(t, 1, 1)
	// A send that waits for a receive is tried once in each call, and does not count as a step.
	n.SetHook(nil)
	a.send(t, verbs.SendWR{ID: 2, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 8)})
	c, d := r.pair(t, verbs.RC)
	writes(t, c, d, 5, 1)
	if k := n.Step(1); k != 1 {
		t.Errorf("%d done beside what waits", k)
	}
	c.completed(t, 5, 1)
	n.Step(1)
	a.completed(t, 0, 0)
	n.Step(1)
	if wc := a.poll(t, 1)[0]; wc.Status != verbs.WCRNRRetryExcErr {
		t.Errorf("%v", wc.Status)
	}
}

// TestWorkStepsBell checks that a doorbell without an effect still fails when it is made to.
func TestWorkStepsBell(t *testing.T) {
	r := fabricRig(t)
	a, b := r.pair(t, verbs.RC)
	r.kernel.Fabric().SetWork(verbstest.InStep)
	for skip := range 3 {
		r.kernel.FailCall("write", skip, syscall.EIO)
		writes(t, a, b, 1, skip)
		_, err := a.qp.PostSend(nil)
		wantErr(t, err, syscall.EIO, "the bell")
		writes(t, a, b, uint64(1+skip), 1)
		a.poll(t, skip+1)
	}
	late := r.newSide(t, verbs.RC) // opened in this mode
	late.up(t, b)
	writes(t, late, b, 1, 1)
	late.completed(t, 0, 0)
	var p verbstest.Process
	c := must(verbs.NewContext(p.Open(r.kernel), 2))(t)
	defer c.Close()
	pd := must(c.AllocPD())(t)
	cq := must(c.CreateCQ(4, nil, 0))(t)
	qp := must(pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1}}))(t)
	at := &verbs.QPAttr{Port: 1, AH: r.path(), PathMTU: r.mtu}
	check(t, qp.Init(at))
	check(t, qp.Connect(at))
	p.Kill()
	_, err := qp.PostSend([]verbs.SendWR{{Opcode: verbs.WRSend}})
	wantErr(t, err, ucs.ErrIO, "the dead")
	r.kernel.Remove()
	_, err = a.qp.PostSend(nil)
	wantErr(t, err, ucs.ErrIO, "a device that is gone")
}

// TestWorkBehind makes the devices work on their own: the program only posts and polls.
func TestWorkBehind(t *testing.T) { workBehind(t, (*verbstest.Fabric).Run) }

// TestWorkServed does the same with timers.
func TestWorkServed(t *testing.T) { workBehind(t, (*verbstest.Fabric).Serve) }

func workBehind(t *testing.T, begin func(*verbstest.Fabric) (stop func())) {
	r := fabricRig(t)
	n := r.kernel.Fabric()
	stop := begin(n)
	defer stop()
	a, b := r.pair(t, verbs.RC, func(a *verbs.QPAttr) { a.RetryCount, a.RNRRetry = 7, 7 })
	n.SetHook(verbstest.Random(5, verbstest.Chances{Drop: 0.05, Hold: 0.05, NotReady: 0.05}))
	for i := range uint64(200) {
		a.buf[0] = byte(i)
		a.send(t, verbs.SendWR{ID: i, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 8)})
		b.recv(t, verbs.RecvWR{ID: i, SGList: b.at(0, 8)}) // makes no call to the device
		for end := time.Now().Add(eventTimeout); ; runtime.Gosched() {
			var wc [1]verbs.WC
			if a.cq.Poll(wc[:]) == 1 {
				if wc[0].ID != i || wc[0].Status != verbs.WCSuccess {
					t.Fatalf("%+v (%v)", wc[0], wc[0].Status)
				}
				break
			}
			if time.Now().After(end) {
				t.Fatal("nothing happens")
			}
		}
		if b.done(t, i, verbs.WCRecv); b.buf[0] != byte(i) {
			t.Fatalf("message %d holds %d", i, b.buf[0])
		}
	}
	n.SetHook(nil)
	stop()
	stop()
	writes(t, a, b, 1, 1)
	a.completed(t, 1, 1) // at the doorbell, as before
}

// TestWorkBehindSuite runs the tests of the suite that sleep, on devices that work on their own.
func TestWorkBehindSuite(t *testing.T) { workBehindSuite(t, (*verbstest.Fabric).Run) }

// TestWorkServedSuite does the same with timers.
func TestWorkServedSuite(t *testing.T) { workBehindSuite(t, (*verbstest.Fabric).Serve) }

func workBehindSuite(t *testing.T, begin func(*verbstest.Fabric) (stop func())) {
	for _, s := range suite {
		switch s.name {
		case "Wait", "ArmRace", "Flood", "Waiters", "ResizeLoad", "SharedChannel", "SendRecv", "Datagrams":
			t.Run(s.name, func(t *testing.T) {
				r := fabricRig(t)
				stop := begin(r.kernel.Fabric())
				defer stop()
				s.test(t, r)
			})
		}
	}
}

// BenchmarkPostInSteps posts small writes to a device that works later, so that it measures little
// else than posting.
func BenchmarkPostInSteps(b *testing.B) {
	k := verbstest.New()
	k.Fabric().SetWork(verbstest.InStep)
	qp, cq, mr := selfPair(b, k.Open(), 100)
	wc := make([]verbs.WC, 128)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p := qp.Begin()
		p.Write(0, 0, mr.Addr()+64, mr.RKey())
		p.Inline(mr.Bytes()[:8])
		p.Ring()
		if i%64 == 63 {
			b.StopTimer()
			k.Progress()
			cq.Poll(wc)
			b.StartTimer()
		}
	}
}

// TestWorkAllocations checks that steps allocate nothing.
func TestWorkAllocations(t *testing.T) {
	if race.Enabled {
		t.Skip("the race detector allocates")
	}
	r := fabricRig(t)
	n := r.kernel.Fabric()
	n.SetWork(verbstest.InStep)
	a, b := r.pair(t, verbs.RC)
	wr := []verbs.SendWR{{Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 100)}}
	recv := []verbs.RecvWR{{SGList: b.at(0, 100)}}
	wc := make([]verbs.WC, 2)
	if k := testing.AllocsPerRun(100, func() {
		b.qp.PostRecv(recv)
		a.qp.PostSend(wr)
		if n.Step(1) != 1 || a.cq.Poll(wc) != 1 || b.cq.Poll(wc) != 1 {
			t.Fatal("not done")
		}
	}); k != 0 {
		t.Errorf("%v times", k)
	}
}

// TestWorkOnce: while a goroutine does the work nothing else takes it over.
func TestWorkOnce(t *testing.T) {
	n := fabricRig(t).kernel.Fabric()
	for name, start := range map[string]func() (stop func()){"Run": n.Run, "Serve": n.Serve} {
		stop := start()
		for second, call := range map[string]func(){
			"SetWork": func() { n.SetWork(verbstest.InStep) }, "Run": func() { n.Run()() }, "Serve": func() { n.Serve()() },
		} {
			if !panics(call) {
				t.Errorf("%s while %s is in force", second, name)
			}
		}
		stop()
		stop()
		n.SetWork(verbstest.InBell)
	}
}

func panics(f func()) (did bool) {
	defer func() { did = recover() != nil }()
	f()
	return false
}
