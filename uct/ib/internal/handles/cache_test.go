//go:build linux

package handles

import (
	"errors"
	"sync"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// device is a device whose resolution of neighbors a test controls.
type device struct {
	*testing.T
	*Cache
	kernel *verbstest.Kernel
	own    verbs.GIDEntry

	answers sync.Mutex
	answer  map[verbs.GID]chan syscall.Errno // guarded by answers: neighbors that do not answer yet
	asked   map[verbs.GID]int                // guarded by answers
}

func newDevice(t *testing.T) *device {
	s := &device{T: t, kernel: verbstest.New(), answer: make(map[verbs.GID]chan syscall.Errno), asked: make(map[verbs.GID]int)}
	ctx, err := verbs.NewContext(s.kernel.Open(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ctx.Close() })
	pd, err := ctx.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	s.Cache = New(pd)
	if s.own, err = ctx.DefaultGID(1); err != nil {
		t.Fatal(err)
	}
	s.kernel.SetResolve(func(_, to [16]byte) syscall.Errno {
		s.answers.Lock()
		s.asked[to]++
		c := s.answer[to]
		s.answers.Unlock()
		if c == nil {
			return 0
		}
		return <-c
	})
	return s
}

// to returns a path to the n-th neighbor.
func (s *device) to(n int) verbs.AHAttr {
	gid := s.own.GID
	gid[14] += byte(n >> 8)
	gid[15] += byte(n)
	return s.own.To(gid)
}

// quiet delays the resolution of a neighbor until its result is sent to the channel.
func (s *device) quiet(to verbs.AHAttr) chan<- syscall.Errno {
	s.answers.Lock()
	defer s.answers.Unlock()
	c := make(chan syscall.Errno)
	s.answer[to.DGID] = c
	return c
}

func (s *device) times(to verbs.AHAttr) int {
	s.answers.Lock()
	defer s.answers.Unlock()
	return s.asked[to.DGID]
}

// handle returns the address handle of a path.
func (s *device) handle(to verbs.AHAttr) *Handle {
	s.Helper()
	a, err := s.Get(to)
	if err != nil {
		s.Fatal(err)
	}
	return a
}

// TestKnown checks that a path is known while there is a handle to the same neighbor, unless the
// neighbor has failed to answer since.
func TestKnown(t *testing.T) {
	s := newDevice(t)
	to := s.to(0)
	other := to
	other.FlowLabel++
	if s.Known(to) {
		t.Error("known before anybody has asked")
	}
	a := s.handle(to)
	if !s.Known(to) || !s.Known(other) || s.Known(s.to(1)) {
		t.Error("not that to the neighbor is known")
	}
	a.Done()
	if !s.Known(to) {
		t.Error("not known although it is kept")
	}
	s.Missed(other)
	if s.Known(to) {
		t.Error("known although the neighbor has not answered")
	}
	before := s.times(to)
	if !s.Resolve(to, nil) {
		t.Error("not sought")
	}
	s.all.Wait()
	if !s.Known(to) || s.times(to) != before+1 {
		t.Errorf("not known after it was sought, asked %d times", s.times(to)-before)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := s.kernel.Objects(); n != 1 {
		t.Errorf("%d objects are left", n)
	}
}

// TestSlowNeighbor checks that waiting for a neighbor blocks neither the use of known paths nor the
// release of handles.
func TestSlowNeighbor(t *testing.T) {
	s := newDevice(t)
	known, slow := s.handle(s.to(0)), s.to(1)
	answer := s.quiet(slow)
	var wait sync.WaitGroup
	for range 2 { // the second one starts a resolution, too
		wait.Add(1)
		go func() {
			defer wait.Done()
			if _, err := s.Get(slow); err != nil {
				t.Error(err)
			}
		}()
	}
	for s.times(slow) < 2 {
		if s.Known(slow) || !s.Known(known.to) {
			t.Error("who answers is not known")
		}
		if err := s.handle(known.to).Done(); err != nil {
			t.Fatal(err)
		}
	}
	if err := known.Done(); err != nil {
		t.Error(err)
	}
	answer <- 0
	answer <- 0
	wait.Wait()
	if a := s.handle(slow); a.users != 3 || len(s.by) != 2 {
		t.Errorf("%d users of %d handles", a.users, len(s.by))
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := s.kernel.Objects(); n != 1 {
		t.Errorf("%d objects are left", n)
	}
}

// TestSlowNeighborFails checks the error for a neighbor that does not answer at all.
func TestSlowNeighborFails(t *testing.T) {
	s := newDevice(t)
	answer := s.quiet(s.to(1))
	go func() { answer <- syscall.ETIMEDOUT }()
	if _, err := s.Get(s.to(1)); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Error(err)
	}
}
