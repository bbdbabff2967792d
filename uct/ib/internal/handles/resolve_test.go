//go:build linux

package handles

import (
	"runtime"
	"syscall"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// TestResolve checks that a resolution runs in the background, and that each caller is notified of
// whether the path was found.
func TestResolve(t *testing.T) {
	s := newDevice(t)
	told := make(chan bool, 4)
	tell := func(found bool) { told <- found }
	a, b := s.to(1), s.to(2)
	answers := []chan<- syscall.Errno{s.quiet(a), s.quiet(b)}
	again := a
	again.FlowLabel++
	for _, to := range []verbs.AHAttr{a, again, b} {
		if !s.Resolve(to, tell) {
			t.Errorf("%+v is not resolved", to)
		}
	}
	if len(told) != 0 || s.Known(a) || s.Known(b) {
		t.Error("known before anybody has answered")
	}
	answers[0] <- 0
	if first, second := <-told, <-told; !first || !second {
		t.Error("the first is not found")
	}
	answers[1] <- syscall.ETIMEDOUT
	if <-told {
		t.Error("the second is found")
	}
	if !s.Known(a) || !s.Known(again) || s.Known(b) {
		t.Error("what was found is not known, or what was not is")
	}
	if s.Resolve(again, tell) {
		t.Error("a path that is known is resolved")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := s.kernel.Objects(); n != 1 {
		t.Errorf("%d objects are left", n)
	}
}

// gate makes the resolutions of the first n neighbors wait for the same channel.
func (s *device) gate(n int) chan syscall.Errno {
	gate := make(chan syscall.Errno)
	s.answers.Lock()
	defer s.answers.Unlock()
	for k := range n {
		s.answer[s.to(k).DGID] = gate
	}
	return gate
}

// TestMany checks the limits of resolutions: of those in flight, of those for unconnected peers,
// which is lower, and of those in the queue.
func TestMany(t *testing.T) {
	s := newDevice(t)
	gate := s.gate(512)
	strangers := 0
	for n := range 20 {
		if s.Resolve(s.to(n), nil) {
			strangers++
		}
	}
	if strangers != maxUnconnected {
		t.Errorf("%d resolutions for strangers", strangers)
	}
	told, others := make(chan bool, 512), 0
	for n := 20; n < 512; n++ {
		if s.Resolve(s.to(n), func(found bool) { told <- found }) {
			others++
		}
	}
	if others != maxBegun-maxUnconnected+maxQueued || s.inFlight != maxBegun {
		t.Errorf("%d other resolutions, %d under way", others, s.inFlight)
	}
	most := 0
	for range strangers + others {
		gate <- syscall.ETIMEDOUT
		s.mu.Lock()
		most = max(most, s.inFlight)
		s.mu.Unlock()
	}
	for range others {
		<-told
	}
	s.all.Wait()
	if most > maxBegun || len(s.pending) != 0 || s.inFlight != 0 {
		t.Errorf("%d at once, %+v", most, s.pending)
	}
}

// TestClose checks that closing a cache waits for the resolutions in flight, and for nothing else.
func TestClose(t *testing.T) {
	s := newDevice(t)
	gate := s.gate(40)
	told := make(chan bool, 40)
	for n := range 40 {
		s.Resolve(s.to(n), func(found bool) { told <- found })
	}
	go func() {
		for left := 1; left > 0; runtime.Gosched() { // otherwise others may begin
			s.mu.Lock()
			left = len(s.queue)
			s.mu.Unlock()
		}
		for range maxBegun {
			gate <- 0
		}
	}()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if n := s.kernel.Objects(); n != 1 || len(told) != maxBegun {
		t.Errorf("%d objects are left, %d callers told", n, len(told))
	}
}
