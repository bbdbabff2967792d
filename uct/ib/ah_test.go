//go:build linux

package ib

import (
	"errors"
	"sync"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// searching is a domain whose device finds those neighbors that a test lets it find.
type searching struct {
	*testing.T
	kernel *verbstest.Kernel
	domain *Domain
	own    verbs.GIDEntry

	mu     sync.Mutex
	answer map[verbs.GID]chan syscall.Errno // guarded by mu: those that are waited for
	asked  map[verbs.GID]int                // guarded by mu
}

func newSearching(t *testing.T) *searching {
	s := &searching{T: t, kernel: verbstest.New(), answer: make(map[verbs.GID]chan syscall.Errno), asked: make(map[verbs.GID]int)}
	ctx, err := verbs.NewContext(s.kernel.Open(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ctx.Close() })
	pd, err := ctx.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	s.domain = &Domain{ctx: ctx, pd: pd}
	s.domain.handles.pd = pd
	s.domain.news.open(s.domain, false)
	if s.own, err = ctx.DefaultGID(1); err != nil {
		t.Fatal(err)
	}
	s.kernel.SetResolve(func(_, to [16]byte) syscall.Errno {
		s.mu.Lock()
		s.asked[to]++
		c := s.answer[to]
		s.mu.Unlock()
		if c == nil {
			return 0
		}
		return <-c
	})
	return s
}

// to is a way to the n-th neighbor.
func (s *searching) to(n int) verbs.AHAttr {
	gid := s.own.GID
	gid[14] += byte(n >> 8)
	gid[15] += byte(n)
	return s.own.To(gid)
}

// silent has a neighbor not answer before something comes out of the channel.
func (s *searching) silent(to verbs.AHAttr) chan<- syscall.Errno {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan syscall.Errno)
	s.answer[to.DGID] = c
	return c
}

func (s *searching) times(to verbs.AHAttr) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[to.DGID]
}

// handle is the address handle for a way.
func (s *searching) handle(to verbs.AHAttr) *AH {
	s.Helper()
	a, err := s.domain.AddressHandle(to)
	if err != nil {
		s.Fatal(err)
	}
	return a
}

// TestKnowsWay: a way is known while there is a handle to the same neighbor, and it has not
// failed to answer since.
func TestKnowsWay(t *testing.T) {
	s := newSearching(t)
	d, to := s.domain, s.to(0)
	other := to
	other.FlowLabel++
	if d.KnowsWay(to) {
		t.Error("known before anybody has asked")
	}
	a := s.handle(to)
	if !d.KnowsWay(to) || !d.KnowsWay(other) || d.KnowsWay(s.to(1)) {
		t.Error("not that to the neighbor is known")
	}
	a.Done()
	if !d.KnowsWay(to) {
		t.Error("not known although it is kept")
	}
	d.Missed(other)
	if d.KnowsWay(to) {
		t.Error("known although the neighbor has not answered")
	}
	before := s.times(to)
	if !d.Seek(to, nil, nil) {
		t.Error("not sought")
	}
	d.handles.hunt.all.Wait()
	if !d.KnowsWay(to) || s.times(to) != before+1 {
		t.Errorf("not known after it was sought, asked %d times", s.times(to)-before)
	}
	if err := d.handles.close(); err != nil {
		t.Error(err)
	}
	if n := s.kernel.Objects(); n != 1 {
		t.Errorf("%d objects are left", n)
	}
}

// TestSlowNeighbor: who waits for a neighbor keeps nobody from ways that are known, nor from
// giving handles back.
func TestSlowNeighbor(t *testing.T) {
	s := newSearching(t)
	d := s.domain
	known, slow := s.handle(s.to(0)), s.to(1)
	answer := s.silent(slow)
	var wait sync.WaitGroup
	for range 2 { // the second one, too, asks for himself
		wait.Add(1)
		go func() {
			defer wait.Done()
			if _, err := d.AddressHandle(slow); err != nil {
				t.Error(err)
			}
		}()
	}
	for s.times(slow) < 2 {
		if d.KnowsWay(slow) || !d.KnowsWay(known.to) {
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
	if a := s.handle(slow); a.users != 3 || len(d.handles.by) != 2 {
		t.Errorf("%d users of %d handles", a.users, len(d.handles.by))
	}
	if err := d.handles.close(); err != nil {
		t.Error(err)
	}
	if n := s.kernel.Objects(); n != 1 {
		t.Errorf("%d objects are left", n)
	}
}

// TestSlowNeighborFails is that with one who does not answer at all.
func TestSlowNeighborFails(t *testing.T) {
	s := newSearching(t)
	answer := s.silent(s.to(1))
	go func() { answer <- syscall.ETIMEDOUT }()
	if _, err := s.domain.AddressHandle(s.to(1)); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Error(err)
	}
}
