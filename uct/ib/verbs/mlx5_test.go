//go:build linux

package verbs_test

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// modes are the ways in which a device as of mlx5_ib and its kernel can be.
var modes = []struct {
	name string
	cfg  verbstest.MLX5
}{
	{"dynamic", verbstest.MLX5{}},
	{"dynamic, version 0", verbstest.MLX5{Version0: true}},
	{"static", verbstest.MLX5{StaticUARs: true}},
	{"static, version 0", verbstest.MLX5{StaticUARs: true, Version0: true}},
}

// TestMLX5 is the suite on devices as of mlx5_ib, in each mode.
func TestMLX5(t *testing.T) {
	for i, m := range modes {
		if race.Enabled && i > 0 {
			continue // as the others
		}
		t.Run(m.name, func(t *testing.T) {
			runSuite(t, func(t *testing.T) *rig { return mlx5Rig(t, m.cfg) })
		})
	}
}

// TestMLX5Pairs is the suite with the other end of each pair at another device.
func TestMLX5Pairs(t *testing.T) {
	needtest.Goroutines(t)
	infiniBand := []verbstest.Port{{InfiniBand: true}}
	for i, c := range []struct {
		name string
		env  string
		cfg  verbstest.Config
	}{
		{"dynamic", "", verbstest.Config{MLX5: &verbstest.MLX5{}}},
		{"InfiniBand", "", verbstest.Config{MLX5: &verbstest.MLX5{StaticUARs: true}, Ports: infiniBand}},
		{"dynamic, BlueFlame", "1", verbstest.Config{MLX5: &verbstest.MLX5{}}},
		{"static, BlueFlame", "1", verbstest.Config{MLX5: &verbstest.MLX5{StaticUARs: true}}},
		{"no write combining", "1", verbstest.Config{MLX5: &verbstest.MLX5{NoWC: true}}},
		{"old", "", verbstest.Config{MLX5: &verbstest.MLX5{OldUARs: true, Answer: 56}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("VERBS_BLUEFLAME", c.env)
			var less []string
			if i > 0 && !needtest.Full { // long, and as the first's or TestMLX5's
				less = []string{"Sizes", "ArmRace"}
			}
			runSuite(t, func(t *testing.T) *rig { return mlx5Rigs(t, c.cfg, c.cfg) }, less...)
		})
	}
}

// TestMLX5Far is the suite with a device that reaches memory as that of another process.
func TestMLX5Far(t *testing.T) {
	needtest.Goroutines(t)
	runSuite(t, func(t *testing.T) *rig {
		r := mlx5Rig(t, verbstest.MLX5{})
		r.file = func() verbs.File { return r.kernel.OpenIn(verbstest.Remote(os.Getpid())) }
		return r
	}, "Allocations") // what calls the kernel for each word allocates
}

// runSuite is the suite, but for some tests, on whatever rig there is.
func runSuite(t *testing.T, rig func(*testing.T) *rig, except ...string) {
	for _, s := range suite {
		if slices.Contains(except, s.name) || race.Enabled && s.name == "Sizes" {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			ucttest.NoLeaks(t)
			s.test(t, rig(t))
		})
	}
}

// mlx5Rig is a device as of mlx5_ib.
func mlx5Rig(t *testing.T, cfg verbstest.MLX5) *rig {
	t.Helper()
	return mlx5Rigs(t, verbstest.Config{MLX5: &cfg})
}

// mlx5Rigs is one device, or one of two, that does its work behind the back of who rings,
// since nobody is called then.
func mlx5Rigs(t *testing.T, cfg ...verbstest.Config) *rig {
	t.Helper()
	n := verbstest.NewFabric()
	var r *rig
	if len(cfg) == 2 {
		r = fabricRigs(t, n, cfg[0], cfg[1])
	} else {
		r = kernelRig(t, n.Add(cfg[0]))
	}
	r.behind = true
	t.Cleanup(n.Run())
	return r
}

// TestMLX5Remove takes the device away under queues that are in use: posting says nothing,
// as nobody is called, everything else does, with what to do, and closing leaves nothing
// behind.
func TestMLX5Remove(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			nothingLeft(t)
			testMLX5Remove(t, mlx5Rig(t, m.cfg))
		})
	}
}

func testMLX5Remove(t *testing.T, r *rig) {
	a, b := r.pair(t, verbs.RC)
	a.works(t, b, 1)
	srq := must(a.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 4, MaxSGE: 1}))(t)
	a.recv(t, verbs.RecvWR{ID: 3, SGList: a.at(0, 8)}, verbs.RecvWR{ID: 4, SGList: a.at(0, 8)})
	r.kernel.Remove()
	if e := must(a.ctx.GetAsyncEvent(timeout(t)))(t); e.Type != verbs.EventDeviceFatal {
		t.Errorf("%v", e)
	}
	a.send(t, verbs.SendWR{ID: 1, Opcode: verbs.WRSend, Flags: verbs.SendSignaled, SGList: a.at(0, 8)})
	a.recv(t, verbs.RecvWR{ID: 2, SGList: a.at(0, 8)})
	check(t, a.cq.ReqNotify(false))
	r.kernel.Progress()
	if n := a.cq.Poll(make([]verbs.WC, 1)); n != 0 {
		t.Error("a completion")
	}
	_, err := a.ctx.AllocPD()
	wantErr(t, err, ucs.ErrIO, "a domain")
	if err == nil || !strings.Contains(err.Error(), "the device was taken away, or has failed: close it") {
		t.Error(err)
	}
	wantErr(t, a.cq.Resize(9), ucs.ErrIO, "a resize")
	for what, o := range map[string]interface{ Close() error }{"QP": a.qp, "SRQ": srq, "MR": a.mr, "PD": a.pd, "CQ": a.cq} {
		wantErr(t, o.Close(), ucs.ErrIO, what)
	}
	check(t, a.ctx.Close())
	check(t, b.ctx.Close())
	ended(t, r.kernel)
}

// TestMLX5PortDown: who has the device open is told, what is under way fails when its
// retries are over, and all behind it is flushed; what was not under way goes on when the
// port is up again, and so does who is reset.
func TestMLX5PortDown(t *testing.T) {
	nothingLeft(t)
	r := mlx5Rig(t, verbstest.MLX5{})
	a, b := r.pair(t, verbs.RC, impatient(2))
	c, d := r.pair(t, verbs.RC, impatient(2))
	a.recv(t, verbs.RecvWR{ID: 7, SGList: a.at(0, 8)})
	r.kernel.SetPort(false)
	if e := a.event(t, verbs.EventPortErr); e.Port != 1 {
		t.Errorf("%v", e)
	}
	if p := must(a.ctx.QueryPort(1))(t); p.State != verbs.PortDown {
		t.Errorf("%v", p.State)
	}
	write := verbs.SendWR{Opcode: verbs.WRRDMAWrite, SGList: a.at(0, 8), RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()}
	first, second := write, write
	first.ID, second.ID = 5, 6
	a.send(t, first, second)
	want := map[uint64]verbs.WCStatus{5: verbs.WCRetryExcErr, 6: verbs.WCWRFlushErr, 7: verbs.WCWRFlushErr}
	for _, wc := range a.poll(t, 3) {
		if want[wc.ID] != wc.Status {
			t.Errorf("%+v (%v)", wc, wc.Status)
		}
		delete(want, wc.ID)
		status := map[verbs.WCStatus]ucs.Status{verbs.WCRetryExcErr: ucs.ErrEndpointTimeout, verbs.WCWRFlushErr: ucs.ErrCanceled}[wc.Status]
		if err := wc.Err(); !errors.Is(err, status) || ucs.StatusOf(err) != status {
			t.Errorf("%v is %v, want %v", err, ucs.StatusOf(err), status)
		}
	}
	if st := a.state(t); st != verbs.QPErr {
		t.Errorf("in %v", st)
	}
	r.kernel.SetPort(true)
	if e := a.event(t, verbs.EventPortActive); e.Port != 1 {
		t.Errorf("%v", e)
	}
	c.works(t, d, 1)
	for _, s := range []*side{a, b} {
		check(t, s.qp.Modify(&verbs.QPAttr{State: verbs.QPReset}, verbs.QPAttrState))
	}
	a.up(t, b)
	b.up(t, a)
	a.works(t, b, 2)
}

// TestMLX5Pins: queues are pinned, as memory that is registered, and what there is no
// more room for is refused without a trace.
func TestMLX5Pins(t *testing.T) {
	ucttest.NoLeaks(t)
	r := mlx5Rigs(t, verbstest.Config{MLX5: &verbstest.MLX5{}, Limits: verbstest.Limits{MemLock: 64 << 10}})
	c := r.open(t)
	pd := must(c.AllocPD())(t)
	cq := must(c.CreateCQ(100, nil, 0))(t)
	was, _ := r.kernel.Pinned()
	if was == 0 {
		t.Error("nothing is pinned")
	}
	_, err := c.CreateCQ(4000, nil, 0)
	wantErr(t, err, ucs.ErrNoMemory, "a long queue")
	_, err = pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1000, MaxRecvWR: 1000}})
	wantErr(t, err, ucs.ErrNoMemory, "a queue pair")
	_, err = pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 4000, MaxSGE: 2})
	wantErr(t, err, ucs.ErrNoMemory, "a shared queue")
	wantErr(t, cq.Resize(4000), ucs.ErrNoMemory, "more room")
	if now, _ := r.kernel.Pinned(); now != was {
		t.Errorf("%d bytes are pinned, and before %d", now, was)
	}
}
