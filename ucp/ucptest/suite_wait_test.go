//go:build linux

package ucptest

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var waitCases = []testCase{
	{"wait", everySwitch, testRequestWait},
	{"wait with an ended context cancels", anywhere, testWaitCanceled},
	{"wait with an ended context keeps what cannot be canceled", twoSides, testWaitUncancelable},
	{"wait with a context that ends while it sleeps", anywhere, testWaitEndsAsleep},
	{"wait notices the end of its context in heavy traffic", anywhere, testWaitBusy},
	{"blocking send and receive", everySwitch, testBlocking},
	{"blocking receive with an ended context", anywhere, testBlockingCanceled},
	{"two goroutines cannot wait on one worker", lonely, testTwoWaiters},
	{"worker run", anywhere, testRun},
	{"results stay until they are freed", everySwitch, testResultsStay},
}

// testRequestWait checks that Wait progresses and returns the result.
func testRequestWait(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open() // one worker, as Wait progresses no other
	ep, _ := loop(r, a)
	for _, n := range []int{8, 100_000} {
		src, buf := ucttest.Pattern(n, 1), make([]byte, n)
		rreq := r.started(a.TagRecv(1, ucp.FullMask, buf, nil))
		sreq, err := ep.TagSendSync(1, src, nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := sreq.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := rreq.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		ucttest.SameBytes(t, "message", buf, src)

		rreq = r.started(a.TagRecv(1, ucp.FullMask, buf[:n-1], nil))
		if sreq, err = ep.TagSend(1, src, nil); err != nil {
			t.Fatal(err)
		}
		if err := rreq.Wait(t.Context()); !errors.Is(err, ucs.ErrMessageTruncated) {
			t.Errorf("truncated: %v", err)
		}
		if err := sreq.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// loop connects a worker with itself over its transport, without loopback of the endpoint.
func loop(r *rig, s *side) (there, back *ucp.Endpoint) {
	r.Helper()
	if r.loopback {
		ep := s.connect(s)
		return ep, ep
	}
	p := ucp.EndpointParams{Flags: ucp.EndpointNoLoopback}
	return s.connectWith(s, p), s.connectWith(s, p)
}

// ended returns a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(errGivenUp)
	return ctx
}

var errGivenUp = errors.New("given up")

// testWaitCanceled checks that a receive that is not matched is canceled.
func testWaitCanceled(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	var o outcome
	req := a.recvInto(1, ucp.FullMask, make([]byte, 16), &o)
	err := req.Wait(ended())
	if !errors.Is(err, ucs.ErrCanceled) || !errors.Is(err, errGivenUp) {
		t.Errorf("wait: %v, want canceled because given up", err)
	}
	o.once(t)
	if !errors.Is(o.err, ucs.ErrCanceled) {
		t.Errorf("callback: %v", o.err)
	}
	// The message goes to the next receive.
	there, _ := loop(r, a)
	r.sendAndTake(there, a, 1, message(1))
}

// testWaitUncancelable checks that Wait returns the context's error alone if the request cannot be
// canceled, and that the request can be waited for again.
func testWaitUncancelable(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	var o outcome
	req := r.started(ep.TagSendSync(1, message(1), &ucp.RequestParams{OnSend: o.onSend}))
	if err := req.Wait(ended()); err != context.Canceled {
		t.Fatalf("wait: %v, want the context's error alone", err)
	}
	if req.Done() || o.calls != 0 {
		t.Fatal("the send was ended")
	}
	r.arrived(b, 1)
	b.take(1, ucp.FullMask, 16)
	r.until("the send", req.Done)
	if err := req.Wait(ended()); err != nil {
		t.Errorf("wait for a finished request: %v", err)
	}
	o.once(t)
}

// testWaitEndsAsleep ends the contexts of sleeping waits many times on the same worker. None may
// affect a later wait.
func testWaitEndsAsleep(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		a.Signal() // may wake the round at the same time
		go cancel()
		req := a.recvInto(1, ucp.FullMask, make([]byte, 16), nil)
		if err := req.Wait(ctx); !errors.Is(err, ucs.ErrCanceled) || !errors.Is(err, context.Canceled) {
			t.Fatalf("wait: %v", err)
		}
	}
	there, _ := loop(r, a)
	req := a.recvInto(1, ucp.FullMask, make([]byte, 16), nil)
	if _, err := there.TagSend(1, message(1), nil); err != nil {
		t.Fatal(err)
	}
	if err := req.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// testWaitBusy checks that a wait on a worker that is never idle notices the end of its context.
func testWaitBusy(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	there, _ := loop(r, a)
	r.warm(there, a)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	const enough = 20_000 // more events than that after the end of the context are a failure
	events := 0
	var again func(*ucp.Request, error, ucp.TagRecvInfo, any)
	bounce := func() {
		if req, err := a.TagRecv(2, ucp.FullMask, make([]byte, 8), &ucp.RequestParams{OnTagRecv: again}); err != nil || req == nil {
			t.Errorf("receive: %v, %v", req, err)
		}
		if _, err := there.TagSend(2, make([]byte, 8), nil); err != nil {
			t.Errorf("send: %v", err)
		}
	}
	again = func(req *ucp.Request, err error, _ ucp.TagRecvInfo, _ any) {
		if err != nil || events == enough {
			return
		}
		events++
		if events == 100 {
			cancel()
		}
		bounce()
	}
	bounce()
	req := a.recvInto(1, ucp.FullMask, nil, nil)
	if err := req.Wait(ctx); !errors.Is(err, ucs.ErrCanceled) {
		t.Fatalf("wait: %v", err)
	}
	if events == enough {
		t.Error("the wait ended only when the traffic did")
	}
	events = enough
	r.settle()
}

// testBlocking uses the blocking calls with a goroutine for each side.
func testBlocking(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	if tr.loopback {
		src, buf := ucttest.Pattern(1000, 3), make([]byte, 1000)
		req := r.started(a.TagRecv(1, ucp.FullMask, buf, nil))
		if err := ep.TagSendWait(t.Context(), 1, src); err != nil {
			t.Fatal(err)
		}
		r.must(req, nil)
		ucttest.SameBytes(t, "message", buf, src)
		return
	}
	lengths := []int{0, 8, 5000, 100_000, 1 << 20}
	result := make(chan error)
	go func() {
		for _, n := range lengths {
			buf := make([]byte, n)
			info, err := b.TagRecvWait(t.Context(), 1, ucp.FullMask, buf)
			if err == nil && (info != ucp.TagRecvInfo{SenderTag: 1, Length: n}) {
				err = errors.New("wrong info")
			}
			if err != nil {
				result <- err
				return
			}
			ucttest.SameBytes(t, "message", buf, ucttest.Pattern(n, 5))
		}
		result <- nil
	}()
	for _, n := range lengths {
		if err := ep.TagSendWait(t.Context(), 1, ucttest.Pattern(n, 5)); err != nil {
			t.Error(err)
		}
	}
	// The last message may need this side's progress.
	ctx, cancel := context.WithCancel(t.Context())
	var err error
	go func() {
		err = <-result
		cancel()
	}()
	a.Run(ctx)
	if err != nil {
		t.Error(err)
	}
}

func testBlockingCanceled(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	if _, err := a.TagRecvWait(ended(), 1, ucp.FullMask, make([]byte, 16)); !errors.Is(err, ucs.ErrCanceled) || !errors.Is(err, errGivenUp) {
		t.Errorf("receive: %v", err)
	}
	there, _ := loop(r, a)
	r.sendAndTake(there, a, 1, message(1))
}

// testTwoWaiters checks that a second goroutine that waits gets an error.
func testTwoWaiters(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error)
	go func() {
		err := ucs.ErrBusy.Err()
		for errors.Is(err, ucs.ErrBusy) {
			err = a.Run(ctx)
		}
		result <- err
	}()
	// These waits end by their contexts until the other goroutine waits.
	for {
		err := a.Wait(ended())
		if errors.Is(err, ucs.ErrBusy) {
			break
		}
		if err != nil && err != context.Canceled {
			t.Fatal(err)
		}
		runtime.Gosched() // with one CPU the other goroutine runs only now
	}
	if err := a.Run(t.Context()); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("run: %v", err)
	}
	cancel()
	if err := <-result; err != context.Canceled {
		t.Errorf("the first waiter: %v", err)
	}
}

// testRun checks that Run progresses until its context ends, even if nothing happens.
func testRun(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	there, _ := loop(r, a)
	ctx, cancel := context.WithCancel(context.Background())
	got := 0
	var post func()
	post = func() {
		_, err := a.TagRecv(1, ucp.FullMask, make([]byte, 16), &ucp.RequestParams{OnTagRecv: func(req *ucp.Request, err error, _ ucp.TagRecvInfo, _ any) {
			if err != nil {
				return
			}
			req.Free()
			if got++; got == 10 {
				cancel()
				return
			}
			post()
			if _, err := there.TagSend(1, message(got), nil); err != nil {
				t.Error(err)
			}
		}})
		if err != nil {
			t.Error(err)
		}
	}
	post()
	if _, err := there.TagSend(1, message(0), nil); err != nil {
		t.Fatal(err)
	}
	if err := a.Run(ctx); err != context.Canceled || got != 10 {
		t.Errorf("run: %v after %d messages", err, got)
	}
	if err := a.Run(ended()); err != context.Canceled {
		t.Errorf("run with an ended context: %v", err)
	}
}
