package ucp

import (
	"errors"
	"runtime"
	"testing"

	"github.com/ucx-go/ucx/ucs"
)

// shared is a worker that many goroutines may use, with an endpoint to another worker, and one to
// itself for the method held.
type shared struct {
	testing.TB
	*Worker
	ep, own *Endpoint
	to      *Worker
}

func newShared(t testing.TB, settings ...string) *shared {
	t.Helper()
	s := &shared{TB: t}
	settings = append([]string{"TLS", "posix,self"}, settings...)
	for _, w := range []**Worker{&s.Worker, &s.to} {
		ctx := targetContext(t, settings...)
		t.Cleanup(func() {
			if err := ctx.Close(); err != nil {
				t.Error(err)
			}
		})
		var err error
		if *w, err = ctx.NewWorker(WorkerParams{ThreadMode: ucs.ThreadModeMulti}); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		for _, w := range []*Worker{s.Worker, s.to} {
			if err := w.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	for ep, to := range map[**Endpoint]*Worker{&s.ep: s.to, &s.own: s.Worker} {
		var err error
		if *ep, err = s.NewEndpoint(EndpointParams{Address: to.own.address}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// held makes another goroutine own the worker: it stays in a callback, where it runs the functions
// that are passed to do, until letGo is called.
func (s *shared) held() (do func(func()), letGo func()) {
	s.Helper()
	const tag = 0x4E1D
	orders, done, over := make(chan func()), make(chan struct{}), make(chan error)
	recv, err := s.TagRecv(tag, FullMask, nil, &RequestParams{OnTagRecv: func(*Request, error, TagRecvInfo, any) {
		for order := range orders {
			order()
			done <- struct{}{}
		}
	}})
	if err != nil {
		s.Fatal(err)
	}
	go func() { over <- s.own.TagSendWait(s.Context(), tag, nil) }()
	do = func(order func()) {
		orders <- order
		<-done
	}
	do(func() {})
	return do, func() {
		s.Helper()
		close(orders)
		if err := <-over; err != nil {
			s.Error(err)
		}
		recv.Free()
	}
}

// until progresses both workers until cond holds.
func (s *shared) until(what string, cond func() bool) {
	s.Helper()
	for range 1_000_000 {
		if cond() {
			return
		}
		if s.Progress()+s.to.Progress() == 0 {
			runtime.Gosched()
		}
	}
	s.Fatalf("still waiting for: %s", what)
}

// TestWaitOfFreed: Wait detects that its request is freed after the call has begun, while another
// goroutine owns the worker.
func TestWaitOfFreed(t *testing.T) {
	s := newShared(t)
	r, err := s.TagRecv(1, FullMask, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	s.Cancel(r)
	do, letGo := s.held()
	told := make(chan any)
	go func() { told <- misuse(func() { r.Wait(t.Context()) }) }()
	for !s.owner.engine.Pending() {
		runtime.Gosched()
	}
	do(r.Free)
	letGo()
	if is := <-told; is != usedAfterFree {
		t.Errorf("a wait for a request that was freed meanwhile: %v", is)
	}
}

// TestRefusedCloseLeaves: after a refused close, calls on the endpoint are delegated as before.
func TestRefusedCloseLeaves(t *testing.T) {
	s := newShared(t)
	if _, err := s.ep.CloseAsync(&RequestParams{Flags: OpForceImmediate}); !errors.Is(err, ucs.ErrNoResource) {
		t.Fatalf("closing at once: %v", err)
	}
	c := s.newCall(startFlush)
	c.ep = s.ep
	if !c.mayDelegate() {
		t.Error("calls on the endpoint wait for their turn")
	}
}

// TestLeftSendsAreBounded: a goroutine that sends short messages has to wait once a number of them
// is in flight, if another goroutine owns the worker or the peer does not read.
func TestLeftSendsAreBounded(t *testing.T) {
	s := newShared(t, "POSIX_FIFO_SIZE", "4")
	s.until("connection", func() bool { return s.ep.shortBelow > 1 })
	_, letGo := s.held()
	const many = 4 * maxDetached
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range many {
			if _, err := s.ep.TagSend(1, []byte("short"), nil); err != nil {
				t.Error(err)
			}
		}
	}()
	for s.detachedCalls.Load() < maxDetached {
		select {
		case <-sent:
			t.Fatalf("%d messages were left to a goroutine that does not take them", many)
		default:
			runtime.Gosched()
		}
	}
	letGo()
	<-sent
	if n := s.detachedCalls.Load(); n < maxDetached/2 || n > maxDetached {
		t.Errorf("%d messages that nobody hears of are on their way to a peer that does not read, want up to %d", n, maxDetached)
	}
	s.until("messages", func() bool { return s.to.Stats().Unexpected == many })
	if n := s.detachedCalls.Load(); n != 0 {
		t.Errorf("all messages are there, and %d are on their way", n)
	}
}
