//go:build linux

package ucptest

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var requestCases = []testCase{
	{"state of a request", everySwitch, testRequestState},
	{"free in flight silences the callback", everySwitch, testFreeInFlight},
	{"dropped in flight", fewSwitches, testDropped},
	{"free inside the callback", everySwitch, testFreeInCallback},
	{"double free panics", anywhere, testDoubleFree},
	{"requests are recycled", everySwitch, testRecycled},
	{"the user's own request", everySwitch, testUserRequest},
	{"the user's request in the call", prompt, testUserRequestInCall},
	{"the user's request twice", everySwitch, testUserRequestBusy},
	{"free of the user's request", everySwitch, testUserRequestFree},
	{"hooks see each request once", everySwitch, testRequestHooks},
}

func testRequestState(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	rreq := r.started(b.TagRecv(1, ucp.FullMask, make([]byte, 16), nil))
	sreq := r.started(ep.TagSendSync(2, message(1), nil))
	for _, req := range []*ucp.Request{rreq, sreq} {
		if req.Done() || req.Err() != ucs.InProgress {
			t.Errorf("running request: done %v, %v", req.Done(), req.Err())
		}
		if _, err := req.TagRecvInfo(); err != ucs.InProgress {
			t.Errorf("info of a running request: %v", err)
		}
		attr, err := req.Attr()
		if err != nil || attr.Info == "" || attr.Err != ucs.InProgress || attr.MemoryType != ucs.MemoryHost {
			t.Errorf("query: %+v, %v", attr, err)
		}
	}
	r.arrived(b, 2)
	b.take(2, ucp.FullMask, 16)
	r.until("the send", sreq.Done)
	s2, err := ep.TagSend(1, message(1), nil)
	r.until("the receive", rreq.Done)
	r.must(s2, err)
	for range 2 {
		if rreq.Err() != nil || sreq.Err() != nil {
			t.Errorf("finished requests: %v, %v", rreq.Err(), sreq.Err())
		}
	}
	rreq.Free()
	sreq.Free()
	flush := r.started(ep.Flush(&ucp.RequestParams{Flags: ucp.OpNoImmediate}))
	if attr, err := flush.Attr(); err != nil || attr.Info == "" || attr.MemoryType != ucs.MemoryUnknown {
		t.Errorf("query of a flush: %+v, %v", attr, err)
	}
	r.must(flush, nil)
}

// testFreeInFlight checks that the operation goes on after Free and that its callback does not run.
func testFreeInFlight(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, n := range []int{8, 100_000} {
		var send, recv outcome
		src, buf := ucttest.Pattern(n, 1), make([]byte, n)
		r.started(b.TagRecv(1, ucp.FullMask, buf, &ucp.RequestParams{OnTagRecv: recv.onRecv})).Free()
		sreq := r.started(ep.TagSendSync(1, src, &ucp.RequestParams{OnSend: send.onSend}))
		if sreq.Done() {
			send.calls = 0 // over a loopback transport it is already complete
		}
		sreq.Free()
		// A later exchange shows that the first is complete.
		next := r.started(b.TagRecv(2, ucp.FullMask, nil, nil))
		r.must(ep.TagSendSync(2, nil, nil))
		r.must(next, nil)
		r.settle()
		if send.calls+recv.calls != 0 {
			t.Errorf("callbacks ran: %d, %d", send.calls, recv.calls)
		}
		ucttest.SameBytes(t, "message", buf, src)
	}
}

// testFreeInCallback checks that a callback may free its request, as the last user.
func testFreeInCallback(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, n := range []int{8, 100_000} {
		done := 0
		recv := func(req *ucp.Request, err error, _ ucp.TagRecvInfo, _ any) {
			if err != nil {
				t.Error(err)
			}
			done++
			req.Free()
		}
		send := func(req *ucp.Request, err error, _ any) { recv(req, err, ucp.TagRecvInfo{}, nil) }
		r.started(b.TagRecv(1, ucp.FullMask, make([]byte, n), &ucp.RequestParams{OnTagRecv: recv}))
		if _, err := ep.TagSendSync(1, make([]byte, n), &ucp.RequestParams{OnSend: send}); err != nil {
			t.Fatal(err)
		}
		r.until("both callbacks", func() bool { return done == 2 })
	}
}

// testDoubleFree checks that freeing a request twice is detected.
func testDoubleFree(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, _ := r.pair()
	req := r.started(a.TagRecv(1, ucp.FullMask, nil, nil))
	a.Cancel(req)
	req.Free()
	for what, use := range map[string]func(){
		"Free": req.Free,
		"Attr": func() { req.Attr() },
		"Wait": func() { req.Wait(t.Context()) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s of a freed request did not panic", what)
				}
			}()
			use()
		}()
	}
}

// testRecycled checks that in steady state no request objects are allocated.
func testRecycled(t *testing.T, tr transport) {
	if race.Enabled {
		t.Skip("race builds do not recycle requests, so that use after Free is found out")
	}
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	var made [20]uint64
	for i := range made {
		for _, n := range []int{8, 5000, 100_000} {
			rreq := r.started(b.TagRecv(1, ucp.FullMask, make([]byte, n), nil))
			r.must(ep.TagSendSync(1, make([]byte, n), nil))
			r.must(rreq, nil)
			for range 10 {
				r.progress()
			}
		}
		made[i] = a.Stats().Requests + b.Stats().Requests
	}
	if made[5] != made[19] {
		t.Errorf("request objects made after each round: %v", made)
	}
}

// testUserRequest checks that an operation uses and returns the request object that it is given.
func testUserRequest(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	sreq, rreq := &ucp.Request{Private: "s"}, &ucp.Request{Private: "r"}
	for _, n := range []int{8, 100_000, 0} {
		src, buf := ucttest.Pattern(n, 7), make([]byte, n)
		var send, recv outcome
		got, err := b.TagRecv(1, ucp.FullMask, buf, &ucp.RequestParams{Request: rreq, OnTagRecv: recv.onRecv})
		if err != nil || got != rreq {
			t.Fatalf("receive returned %p, %v, want %p", got, err, rreq)
		}
		got, err = ep.TagSendSync(1, src, &ucp.RequestParams{Request: sreq, OnSend: send.onSend})
		if err != nil || got != sreq {
			t.Fatalf("send returned %p, %v, want %p", got, err, sreq)
		}
		r.until("both ends", func() bool { return sreq.Done() && rreq.Done() })
		if sreq.Err() != nil || rreq.Err() != nil {
			t.Fatalf("send %v, receive %v", sreq.Err(), rreq.Err())
		}
		send.once(t)
		recv.once(t)
		if info, err := rreq.TagRecvInfo(); err != nil || info.Length != n {
			t.Errorf("info %+v, %v", info, err)
		}
		ucttest.SameBytes(t, "message", buf, src)
		if sreq.Private != "s" || rreq.Private != "r" {
			t.Errorf("private data %v, %v", sreq.Private, rreq.Private)
		}
	}
}

// testUserRequestInCall checks that the caller's request object is not returned if the operation
// completes in its call, and that it can be used again at once.
func testUserRequestInCall(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	req := &ucp.Request{Private: 1}
	p := &ucp.RequestParams{Request: req}
	for range 3 {
		r.inTheCall(ep.TagSend(1, message(1), p))
		r.arrived(b, 1)
		r.inTheCall(b.TagRecv(1, ucp.FullMask, make([]byte, 16), p))
	}
	if _, err := req.Attr(); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("query of an unused request: %v", err)
	}
	if req.Private != 1 {
		t.Errorf("private data %v", req.Private)
	}
}

// testUserRequestBusy checks that a request object in use is refused and not affected.
func testUserRequestBusy(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	recv, send := new(ucp.Request), new(ucp.Request)
	r.started(b.TagRecv(1, ucp.FullMask, make([]byte, 100_000), &ucp.RequestParams{Request: recv}))
	r.started(ep.TagSendSync(1, make([]byte, 100_000), &ucp.RequestParams{Request: send}))
	r.started(ep.TagSendSync(3, nil, nil)).Free()
	for _, req := range []*ucp.Request{recv, send} {
		if req.Done() {
			continue // complete at once over a loopback transport
		}
		p := &ucp.RequestParams{Request: req}
		if got, err := b.TagRecv(2, ucp.FullMask, nil, p); got != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("receive: %v, %v", got, err)
		}
		if got, err := ep.TagSend(2, nil, p); got != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("send: %v, %v", got, err)
		}
	}
	r.until("both ends", func() bool { return recv.Done() && send.Done() })
	if recv.Err() != nil || send.Err() != nil {
		t.Errorf("receive %v, send %v", recv.Err(), send.Err())
	}
}

// testUserRequestFree checks that Free of the caller's own request object only disables the
// callback.
func testUserRequestFree(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	var o outcome
	req := new(ucp.Request)
	r.started(b.TagRecv(1, ucp.FullMask, make([]byte, 100_000), &ucp.RequestParams{Request: req, OnTagRecv: o.onRecv}))
	req.Free()
	r.must(ep.TagSendSync(1, make([]byte, 100_000), nil))
	r.until("the receive", req.Done)
	if o.calls != 0 || req.Err() != nil {
		t.Errorf("callback ran %d times, %v", o.calls, req.Err())
	}
	// The caller may use it again.
	r.started(b.TagRecv(1, ucp.FullMask, make([]byte, 16), &ucp.RequestParams{Request: req}))
	r.must(ep.TagSendSync(1, message(1), nil))
	r.until("the receive", req.Done)
}

// testRequestHooks checks that RequestInit is called once for each request object of the library,
// and RequestCleanup for the same objects when the worker is closed.
func testRequestHooks(t *testing.T, tr transport) {
	r := newRig(t, tr)
	inits, cleanups := make(map[*ucp.Request]int), make(map[*ucp.Request]int)
	params := ucp.ContextParams{
		Features:       features,
		RequestInit:    func(req *ucp.Request) { inits[req]++; req.Private = len(inits) },
		RequestCleanup: func(req *ucp.Request) { cleanups[req]++ },
	}
	a := r.openWith(params, ucp.WorkerParams{})
	b := a
	if !tr.loopback {
		b = r.openWith(params, ucp.WorkerParams{})
	}
	ep := a.connect(b)
	user := new(ucp.Request)
	for range 10 {
		for _, n := range []int{8, 100_000} {
			rreq := r.started(b.TagRecv(1, ucp.FullMask, make([]byte, n), nil))
			sreq := r.started(ep.TagSendSync(1, make([]byte, n), nil))
			for _, req := range []*ucp.Request{rreq, sreq} {
				if req.Private == nil {
					t.Fatal("a request without the mark of RequestInit")
				}
			}
			r.must(rreq, nil)
			r.must(sreq, nil)
		}
	}
	r.started(b.TagRecv(1, ucp.FullMask, nil, &ucp.RequestParams{Request: user}))
	if len(cleanups) != 0 {
		t.Errorf("%d cleanups before the end", len(cleanups))
	}
	if inits[user] != 0 || user.Private != nil {
		t.Error("RequestInit saw the user's own request")
	}
	for _, s := range r.sides {
		s.close()
	}
	if len(inits) == 0 || len(inits) != len(cleanups) {
		t.Errorf("%d requests were initialized, %d cleaned up", len(inits), len(cleanups))
	}
	for req, n := range inits {
		if n != 1 || cleanups[req] != 1 {
			t.Errorf("a request was initialized %d times and cleaned up %d times", n, cleanups[req])
		}
	}
}
