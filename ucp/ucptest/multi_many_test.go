//go:build linux

package ucptest

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// TestMultiMany: thousands of goroutines wait on one worker. Each is woken by its own message or
// its own context, and no resources are kept for any of them.
func TestMultiMany(t *testing.T) {
	count := 2000
	if race.Enabled || testing.Short() {
		count = 300
	}
	for _, name := range []string{"self", "posix", "tcp"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, byName(t, name).shared())
			a, b := r.pair()
			ep := a.connect(b)
			r.warm(ep, b)
			defer debug.SetGCPercent(debug.SetGCPercent(-1)) // a collection would free idle objects
			m := &many{rig: r, a: a, b: b, ep: ep, over: make(chan result)}
			for round := range 3 {
				m.messages(t, count)
				m.cancellations(t, count)
				if requests := b.Stats().Requests; round > 0 && !race.Enabled && requests > m.requests+uint64(count/10) {
					t.Errorf("%d request objects, %d after the round before", requests, m.requests)
				}
				m.requests = b.Stats().Requests
			}
		})
	}
}

type many struct {
	*rig
	a, b     *side
	ep       *ucp.Endpoint
	over     chan result
	requests uint64
}

// result is the result of a goroutine's wait.
type result struct {
	n    int
	info ucp.TagRecvInfo
	err  error
}

// wait starts goroutines that wait, each for its own message, and returns when all have posted
// their receive.
func (m *many) wait(t *testing.T, count int, ctx func(n int) context.Context) {
	t.Helper()
	before, fds, posted := runtime.NumGoroutine(), descriptors(t), m.b.Stats().TagRecvs
	for n := range count {
		go func() {
			info, err := m.b.TagRecvWait(ctx(n), ucp.Tag(n), ucp.FullMask, make([]byte, headSize))
			m.over <- result{n, info, err}
		}()
	}
	for m.b.Stats().TagRecvs < posted+uint64(count) {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > before+count {
		t.Errorf("%d goroutines: %d wait, and %d were there before", n, count, before)
	}
	if n := descriptors(t); n > fds+1 { // the descriptor that the leader sleeps on
		t.Errorf("%d descriptors, %d before", n, fds)
	}
}

// messages sends a message to each goroutine, in random order.
func (m *many) messages(t *testing.T, count int) {
	m.wait(t, count, func(int) context.Context { return t.Context() })
	order := rand.Perm(count)
	go func() {
		for _, n := range order {
			if err := m.ep.TagSendWait(t.Context(), ucp.Tag(n), make([]byte, headSize)); err != nil {
				t.Error(err)
			}
		}
	}()
	for range count {
		got := <-m.over
		if want := (ucp.TagRecvInfo{SenderTag: ucp.Tag(got.n), Length: headSize}); got.err != nil || got.info != want {
			t.Fatalf("waiter %d: %+v, %v", got.n, got.info, got.err)
		}
	}
}

// cancellations cancels the contexts one by one and checks that no other goroutine is affected.
func (m *many) cancellations(t *testing.T, count int) {
	ends := make([]context.CancelFunc, count)
	contexts := make([]context.Context, count)
	for n := range count {
		contexts[n], ends[n] = context.WithCancel(context.Background())
	}
	m.wait(t, count, func(n int) context.Context { return contexts[n] })
	for _, n := range rand.Perm(count) {
		ends[n]()
		got := <-m.over
		if got.n != n || !errors.Is(got.err, ucs.ErrCanceled) || !errors.Is(got.err, context.Canceled) {
			t.Fatalf("waiter %d was canceled, and %d has ended: %v", n, got.n, got.err)
		}
	}
}

// descriptors counts the descriptors of the process.
func descriptors(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
