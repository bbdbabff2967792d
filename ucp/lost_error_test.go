package ucp

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucp/internal/life"
)

// Tests of other calls when a callback ends the goroutine that owns a shared worker.

// revive makes the worker closable again. Over self nothing is lost but the rest of the closing of
// an endpoint, which revive makes up for.
func (s *shared) revive() {
	s.owner.gate, s.owner.engine = gateShared, engine.New((*sleepers)(s.Worker))
	s.wake.Engine = s.owner.engine
	if s.own.life.Stage == life.Gone {
		s.own.w.ends.closeLanes(s.own, false)
		s.endpoints.Remove(uint64(s.own.localID))
	}
}

// says checks that an error reports the loss of the goroutine.
func (s *shared) says(what string, told any) {
	s.Helper()
	if err, ok := told.(error); !ok || !strings.Contains(err.Error(), "has ended the goroutine") {
		s.Errorf("%s: %v", what, told)
	}
}

// TestLostInShutdown: if a callback ends a goroutine that shuts the worker down, later calls report
// that, and the shutdown is no longer counted.
func TestLostInShutdown(t *testing.T) {
	s := newShared(t)
	defer s.revive()
	if _, err := s.own.TagSendSync(1, nil, &RequestParams{OnSend: func(*Request, error, any) { runtime.Goexit() }}); err != nil {
		t.Fatal(err)
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // otherwise Shutdown waits until the message is received
		s.Worker.Shutdown(ctx)
		t.Error("the callback did not end the goroutine")
	}()
	<-over
	s.says("Progress", misuse(func() { s.Progress() }))
	if s.shuttingDown != 0 {
		t.Errorf("%d goroutines are shutting the worker down, and there is none", s.shuttingDown)
	}
}

// TestLostBesideWaiters: if a callback inside other callbacks ends the goroutine, all calls that
// wait end with an error.
func TestLostBesideWaiters(t *testing.T) {
	const waiters, lost = 3, "lost"
	for range 20 {
		s := newShared(t)
		told := make(chan any)
		for range waiters {
			r, err := s.TagRecv(1, FullMask, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				var is any = lost
				defer func() { told <- is }()
				if v := misuse(func() { is = r.Wait(t.Context()) }); v != nil {
					t.Errorf("a wait panics with %v", v)
				}
			}()
			s.until("a wait", func() bool {
				s.owner.acquireRead()
				defer s.owner.releaseRead()
				return r.waiters != nil
			})
		}
		inside := func(tag Tag) func() { return func() { s.own.TagSend(tag, nil, nil) } }
		for tag, fn := range map[Tag]func(){2: inside(3), 3: inside(4), 4: runtime.Goexit} {
			p := &RequestParams{OnTagRecv: func(*Request, error, TagRecvInfo, any) { fn() }}
			if _, err := s.TagRecv(tag, FullMask, nil, p); err != nil {
				t.Fatal(err)
			}
		}
		go func() {
			var is any = lost
			defer func() { told <- is }()
			s.own.TagSend(2, nil, nil) // or a waiter runs the callbacks, and is lost
			for is == lost {
				if v := misuse(func() { s.Progress() }); v != nil {
					is = v
				}
			}
		}()
		gone := 0
		for range waiters + 1 {
			if is := <-told; is == lost {
				gone++
			} else {
				s.says("a call", is)
			}
		}
		if gone != 1 {
			t.Errorf("%d goroutines are lost, want one", gone)
		}
		s.says("Progress", misuse(func() { s.Progress() }))
		s.revive()
	}
}
