//go:build linux

package verbs_test

import (
	"errors"
	"sync"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// testClosedAtOnce closes objects on several goroutines at once, while new objects are made that
// get the same handles. One goroutine must close each object, the others must get an error, and the
// new objects must not be affected.
func testClosedAtOnce(t *testing.T, r *rig) {
	s := r.newSide(t, verbs.RC)
	type object interface{ Close() error }
	path := r.path()
	cq := must(s.ctx.CreateCQ(4, nil, 0))(t)
	for what, create := range map[string]func() (object, error){
		"PD":      func() (object, error) { return s.ctx.AllocPD() },
		"CQ":      func() (object, error) { return s.ctx.CreateCQ(4, nil, 0) },
		"MR":      func() (object, error) { return s.pd.RegMR(make([]byte, 10), fullAccess) },
		"MW":      func() (object, error) { return s.pd.AllocMW() },
		"AH":      func() (object, error) { return s.pd.CreateAH(&path) },
		"SRQ":     func() (object, error) { return s.pd.CreateSRQ(&verbs.SRQInitAttr{MaxWR: 4, MaxSGE: 1}) },
		"channel": func() (object, error) { return s.ctx.CreateCompChannel() },
		"QP": func() (object, error) {
			return s.pd.CreateQP(&verbs.QPInitAttr{Type: verbs.RC, SendCQ: cq, RecvCQ: cq, Cap: verbs.QPCap{MaxSendWR: 1, MaxRecvWR: 1}})
		},
	} {
		const closers = 4
		for range 50 {
			old := must(create())(t)
			var all sync.WaitGroup
			errs := make([]error, closers)
			next := make([]object, closers)
			start := make(chan struct{})
			for i := range closers {
				spawn(&all, func() {
					<-start
					errs[i] = old.Close()
					var err error
					if next[i], err = create(); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				})
			}
			close(start)
			all.Wait()
			ended := 0
			for i, err := range errs {
				switch {
				case err == nil:
					ended++
				case !errors.Is(err, ucs.ErrInvalidParam):
					t.Errorf("%s, closed at once: %v", what, err)
				}
				if err := next[i].Close(); err != nil {
					t.Errorf("%s: closing one at once closed the next: %v", what, err)
				}
			}
			if ended != 1 {
				t.Fatalf("%s: %d goroutines have closed it", what, ended)
			}
		}
	}
}

// testClosedBesideContext closes objects while another goroutine closes their Context. Nothing may
// be left, and the only error is that an object is closed already.
func testClosedBesideContext(t *testing.T, r *rig) {
	for range 50 {
		c := r.open(t)
		pd := must(c.AllocPD())(t)
		var mrs []*verbs.MR
		for range 8 {
			mrs = append(mrs, must(pd.RegMR(make([]byte, 10), fullAccess))(t))
		}
		var all sync.WaitGroup
		start := make(chan struct{})
		for range 2 {
			spawn(&all, func() {
				<-start
				for _, m := range mrs {
					if err := m.Close(); err != nil && !errors.Is(err, ucs.ErrInvalidParam) {
						t.Error(err)
					}
				}
			})
			spawn(&all, func() {
				<-start
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		all.Wait()
	}
}

// spawn runs a function on its own goroutine.
func spawn(all *sync.WaitGroup, run func()) {
	all.Add(1)
	go func() {
		defer all.Done()
		run()
	}()
}

// TestClosedInside closes an object again during the call that destroys it, as another goroutine
// may. The kernel must be called only once.
func TestClosedInside(t *testing.T) {
	r, h := hookedRig(t)
	s := r.newSide(t, verbs.RC)
	m := must(s.pd.RegMR(make([]byte, 10), fullAccess))(t)
	calls := 0
	h.calling = func() {
		calls++
		if calls == 1 {
			wantErr(t, m.Close(), ucs.ErrInvalidParam, "an object that is being closed")
		}
	}
	check(t, m.Close())
	h.calling = nil
	if calls != 1 {
		t.Errorf("%d calls to end one object", calls)
	}
}
