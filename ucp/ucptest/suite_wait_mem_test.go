//go:build linux

package ucptest

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// The rules of ucp_worker_wait_mem: it returns when the memory is updated or an event occurs.
var waitMemCases = []testCase{
	{"memory, or a message", twoSides | everySwitch, testWaitMemMessages},
	{"memory, or a signal", anywhere, testWaitMemSignal},
}

// testWaitMemMessages checks that the loop of a C program that waits for memory and checks the tag
// queue gets every message, even if another goroutine progresses the worker.
func testWaitMemMessages(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	lengths := []int{8, 0, 5000, 100_000, 8, 8, 300_000}
	ctx, cancel := context.WithCancel(t.Context())
	var running, playing sync.WaitGroup
	play := func(s *side, f func() error) {
		playing.Add(1)
		running.Add(1)
		go func() {
			defer running.Done()
			if err := f(); err != nil {
				t.Error(err)
			}
			playing.Done()
			s.Run(ctx) // progresses for the other side
		}()
	}
	play(a, func() error {
		for i, n := range lengths {
			if err := ep.TagSendWait(t.Context(), ucp.Tag(i), ucttest.Pattern(n, uint64(i))); err != nil {
				return err
			}
		}
		return ep.Shutdown(t.Context())
	})
	play(b, func() error {
		word := make([]byte, 8)
		for i, n := range lengths {
			for {
				if _, ok := b.TagPeek(ucp.Tag(i), ucp.FullMask); ok {
					break
				}
				if err := b.WaitMem(t.Context(), word, 0); err != nil {
					return err
				}
				b.Progress()
			}
			buf := make([]byte, n)
			if _, err := b.TagRecvWait(t.Context(), ucp.Tag(i), ucp.FullMask, buf); err != nil {
				return err
			}
			if string(buf) != string(ucttest.Pattern(n, uint64(i))) {
				return errors.New("wrong message")
			}
		}
		return nil
	})
	if tr.mode == ucs.ThreadModeMulti { // another goroutine that consumes events
		running.Add(1)
		go func() {
			defer running.Done()
			b.Run(ctx)
		}()
	}
	playing.Wait()
	cancel()
	running.Wait()
}

// testWaitMemSignal checks that a signal ends one wait, whether it comes before or during the wait.
func testWaitMemSignal(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	word := make([]byte, 4)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	quiet := func() {
		r.until("nothing to wait for", func() bool { return a.WaitMem(over, word, 0) != nil })
	}
	quiet()
	if err := a.Signal(); err != nil {
		t.Fatal(err)
	}
	if err := a.WaitMem(t.Context(), word, 0); err != nil {
		t.Errorf("a signal before the wait: %v", err)
	}
	if err := a.WaitMem(over, word, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("the same signal ends a second wait: %v", err)
	}
	for range 20 {
		quiet()
		told := make(chan error)
		go func() { told <- a.Signal() }()
		if err := a.WaitMem(t.Context(), word, 0); err != nil {
			t.Errorf("a signal: %v", err)
		}
		if err := <-told; err != nil {
			t.Error(err)
		}
	}
}
