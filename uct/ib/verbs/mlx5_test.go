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

// modes are the variants of a simulated mlx5_ib device and its kernel.
var modes = []struct {
	name string
	cfg  verbstest.MLX5
}{
	{"dynamic", verbstest.MLX5{}},
	{"dynamic, version 0", verbstest.MLX5{Version0: true}},
	{"static", verbstest.MLX5{StaticUARs: true}},
	{"static, version 0", verbstest.MLX5{StaticUARs: true, Version0: true}},
}

// TestMLX5 runs the suite on simulated mlx5_ib devices, in each mode.
func TestMLX5(t *testing.T) {
	for i, m := range modes {
		if race.Enabled && i > 0 {
			continue // same as the first for the race detector
		}
		t.Run(m.name, func(t *testing.T) {
			runSuite(t, func(t *testing.T) *rig { return mlx5Rig(t, m.cfg) })
		})
	}
}

// TestMLX5Pairs runs the suite with the peer of each pair on another device.
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
			if i > 0 && !needtest.Full { // slow, and covered by the first or by TestMLX5
				less = []string{"Sizes", "ArmRace"}
			}
			runSuite(t, func(t *testing.T) *rig { return mlx5Rigs(t, c.cfg, c.cfg) }, less...)
		})
	}
}

// TestMLX5Far runs the suite with a device that accesses memory as that of another process.
func TestMLX5Far(t *testing.T) {
	needtest.Goroutines(t)
	runSuite(t, func(t *testing.T) *rig {
		r := mlx5Rig(t, verbstest.MLX5{})
		r.file = func() verbs.File { return r.kernel.OpenIn(verbstest.Remote(os.Getpid())) }
		return r
	}, "Allocations") // each such access is a system call, which allocates
}

// runSuite runs the suite, except some tests, on the rigs that the function rig makes.
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

// mlx5Rig returns a rig of a simulated mlx5_ib device.
func mlx5Rig(t *testing.T, cfg verbstest.MLX5) *rig {
	t.Helper()
	return mlx5Rigs(t, verbstest.Config{MLX5: &cfg})
}

// mlx5Rigs returns a rig of one device, or of one of two, that works on its own goroutine, since
// its doorbell makes no call.
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

// TestMLX5Remove removes a device with active queues. Posting succeeds, since it makes no call. All
// other calls fail with an error that says what to do, and closing leaves nothing behind.
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
	if err == nil || !strings.Contains(err.Error(), "the device was removed or has failed; reopen it") {
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

// TestMLX5PortDown checks that a port that goes down raises an event. Requests fail when their
// retries are used up, and later ones are flushed. Idle queue pairs, and those that are reset, work
// when the port is up again.
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

// TestMLX5Pins checks that queues count as pinned memory, and that those beyond the limit are
// refused and leave nothing behind.
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
