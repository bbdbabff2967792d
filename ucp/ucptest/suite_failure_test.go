//go:build linux

package ucptest

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var failureCases = []testCase{
	{"the peer's worker is closed", twoSides | watchful, testPeerCloses},
	{"the peer closes its end", twoSides | watchful, testPeerClosesEnd},
	{"the peer closes its end and is closed", twoSides | watchful, testPeerClosesEndClosed},
	{"no handler in mode none", twoSides | watchful, testPeerClosesModeNone},
	{"close after a failure", twoSides | watchful, testCloseAfterFailure},
	{"close before the failure is noticed", twoSides | everySwitch, testCloseUnnoticed},
	{"the handler may close and start anew", twoSides | watchful, testHandlerReconnects},
	{"receives outlive a sender", twoSides | watchful, testReceivesOutlive},
	{"a peer that does nothing is alive", twoSides | watchful, testStoppedPeer},
}

// failure records the calls of an error handler.
type failure struct {
	calls int
	ep    *ucp.Endpoint
	err   error
	arg   any
}

func (f *failure) onError(ep *ucp.Endpoint, err error, arg any) {
	*f = failure{f.calls + 1, ep, err, arg}
}

// stage is the stage of an exchange at which the peer is lost.
type stage struct {
	name string

	// start starts operations on ep, from a to b, that cannot all succeed once b is gone.
	start func(r *rig, ep *ucp.Endpoint, a, b *side) []started
}

// started is an operation with the outcome of its callback.
type started struct {
	req   *ucp.Request
	out   *outcome
	early bool // it may complete before anything else happens
}

func (r *rig) startSend(send func(ucp.Tag, []byte, *ucp.RequestParams) (*ucp.Request, error), n int) started {
	r.Helper()
	o := new(outcome)
	return started{r.started(send(1, make([]byte, n), &ucp.RequestParams{OnSend: o.onSend, Flags: ucp.OpNoImmediate})), o, false}
}

var stages = []stage{
	{"idle", func(r *rig, ep *ucp.Endpoint, a, b *side) []started {
		r.warm(ep, b)
		return nil
	}},
	{"before the connection", func(r *rig, ep *ucp.Endpoint, a, b *side) []started {
		return []started{r.startSend(ep.TagSendSync, 8), r.startSend(ep.TagSend, 8), r.startSend(ep.TagSend, 1<<20)}
	}},
	{"synchronous sends without match", func(r *rig, ep *ucp.Endpoint, a, b *side) []started {
		list := []started{r.startSend(ep.TagSendSync, 8), r.startSend(ep.TagSendSync, 50_000)}
		r.settle()
		return list
	}},
	{"an offer without match", func(r *rig, ep *ucp.Endpoint, a, b *side) []started {
		list := []started{r.startSend(ep.TagSend, 8<<20)}
		r.settle()
		return list
	}},
	{"in the middle of a rendezvous", func(r *rig, ep *ucp.Endpoint, a, b *side) []started {
		r.warm(ep, b)
		list := []started{r.startSend(ep.TagSend, endless)}
		r.arrived(b, 1)
		r.started(b.TagRecv(1, 0, make([]byte, endless), nil)) // asks for data, then stops
		for range 3 {
			a.Progress()
		}
		return list
	}},
	{"receiving a rendezvous", func(r *rig, ep *ucp.Endpoint, a, b *side) []started {
		r.warm(ep, b)
		back := b.connectWith(a, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
		r.started(back.TagSend(2, make([]byte, endless), nil))
		r.arrived(a, 2)
		o := new(outcome)
		return []started{{r.started(a.TagRecv(2, 0, make([]byte, endless), &ucp.RequestParams{OnTagRecv: o.onRecv})), o, r.instant}}
	}},
	{"with a full connection", func(r *rig, ep *ucp.Endpoint, a, b *side) []started {
		r.warm(ep, b)
		var list []started
		for range 100 {
			list = append(list, r.startSend(ep.TagSend, 100_000))
		}
		return append(list, r.startSend(ep.TagSendSync, 8))
	}},
}

// testPeerCloses checks that every operation of an endpoint ends once when the peer is lost, the
// last ones with an error. The handler runs once, with the user data; later operations get its
// error; the endpoint is closed in the call; and other endpoints of the worker go on.
func testPeerCloses(t *testing.T, tr transport) {
	for _, st := range stages {
		t.Run(st.name, func(t *testing.T) {
			r := newRig(t, tr)
			a, b, c := r.open(), r.open(), r.open()
			other := a.connect(c)
			r.warm(other, c)
			var f failure
			ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: f.onError, UserData: "mine"})
			ops := st.start(r, ep, a, b)
			b.close()
			r.until("the failure", func() bool { return f.calls > 0 })
			r.settle()
			if f.calls != 1 || f.ep != ep || f.arg != "mine" || f.err == nil || f.err != ep.Err() {
				t.Errorf("handler: %+v; the endpoint's error is %v", f, ep.Err())
			}
			for i, op := range ops {
				if !op.req.Done() {
					t.Fatalf("operation %d did not end", i)
				}
				op.out.once(t)
				if err := op.req.Err(); err != nil && ucs.StatusOf(err) == ucs.OK {
					t.Errorf("operation %d: %v", i, err)
				}
			}
			if n := len(ops); n > 0 && !ops[n-1].early && ops[n-1].req.Err() == nil {
				t.Error("the last operation succeeded")
			}
			for _, call := range []func() (*ucp.Request, error){
				func() (*ucp.Request, error) { return ep.TagSend(1, nil, nil) },
				func() (*ucp.Request, error) { return ep.TagSendSync(1, make([]byte, 1<<20), nil) },
				func() (*ucp.Request, error) { return ep.Flush(nil) },
			} {
				if req, err := call(); req != nil || err != f.err {
					t.Errorf("later operation: %v, %v, want %v", req, err, f.err)
				}
			}
			r.warm(other, c)
			r.must(a.Flush(nil))
			if got := a.Stats().Failures; got != 1 {
				t.Errorf("%d failures are counted", got)
			}
			r.inTheCall(ep.CloseAsync(nil))
			r.endpoints(1, a)
			if f.calls != 1 {
				t.Errorf("the handler ran %d times", f.calls)
			}
		})
	}
}

// neverCalled is part of the warning about a handler without ErrModePeer.
const neverCalled = "OnError is never called"

// testPeerClosesModeNone checks that without ErrModePeer the handler is never called, and that
// there is a warning.
func testPeerClosesModeNone(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	var f failure
	r.log.Expect(neverCalled)
	ep := a.connectWith(b, ucp.EndpointParams{OnError: f.onError})
	r.warm(ep, b)
	var o outcome
	req := r.started(ep.TagSendSync(1, message(1), &ucp.RequestParams{OnSend: o.onSend}))
	b.close()
	r.settle()
	if f.calls != 0 {
		t.Errorf("the handler ran %d times", f.calls)
	}
	if closing, err := ep.CloseAsync(nil); err == nil && closing != nil {
		r.eventually(closing.Done)
		if !closing.Done() {
			t.Error("close hangs")
		}
	}
	a.close()
	o.once(t)
	if req.Err() == nil {
		t.Error("the send succeeded")
	}
}

// testCloseAfterFailure checks that every kind of close releases a failed endpoint in its call.
func testCloseAfterFailure(t *testing.T, tr transport) {
	for _, how := range []string{"flush", "force", "blocking"} {
		r := newRig(t, tr)
		a, b := r.pair()
		var f failure
		ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: f.onError})
		r.warm(ep, b)
		b.close()
		r.until("the failure", func() bool { return f.calls > 0 })
		switch how {
		case "flush":
			r.inTheCall(ep.CloseAsync(nil))
		case "force":
			r.inTheCall(ep.CloseAsync(force))
		default:
			if err := ep.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
		}
		r.endpoints(0, a)
		if _, err := ep.CloseAsync(nil); !errors.Is(err, ucs.ErrNotConnected) {
			t.Errorf("second close: %v", err)
		}
	}
}

// testCloseUnnoticed closes endpoints whose peer has ended, without progress in between, with and
// without sends that fail. The endpoint is released, whatever close returns, and the handler of a
// closed endpoint does not run.
func testCloseUnnoticed(t *testing.T, tr transport) {
	for _, sends := range []int{0, 1, 50} {
		for _, attr := range []ucp.OpFlags{0, ucp.OpNoImmediate} {
			r := newRig(t, tr)
			a, b := r.pair()
			var f failure
			ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: f.onError})
			r.warm(ep, b)
			b.close()
			var ops []started
			for range sends {
				o := new(outcome)
				req, err := ep.TagSend(1, make([]byte, 5000), &ucp.RequestParams{OnSend: o.onSend, Flags: ucp.OpNoImmediate})
				if err == nil {
					ops = append(ops, started{req, o, false})
				}
			}
			closing, err := ep.CloseAsync(&ucp.RequestParams{Flags: attr})
			if err == nil && closing != nil {
				r.until("the close", closing.Done)
			}
			r.settle()
			r.endpoints(0, a)
			for i, op := range ops {
				if !op.req.Done() {
					t.Fatalf("send %d of %d did not end", i, sends)
				}
				op.out.once(t)
			}
			if _, err := ep.CloseAsync(nil); !errors.Is(err, ucs.ErrNotConnected) {
				t.Errorf("second close: %v", err)
			}
		}
	}
}

// testHandlerReconnects checks that the handler may close the endpoint and create another one, and
// that the callbacks of failed operations run before it.
func testHandlerReconnects(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b, c := r.open(), r.open(), r.open()
	var o outcome
	var next *ucp.Endpoint
	ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: func(ep *ucp.Endpoint, err error, _ any) {
		if o.calls != 1 || !errors.Is(o.err, ucs.StatusOf(err)) {
			t.Errorf("the send's callback ran %d times, with %v; the endpoint failed with %v", o.calls, o.err, err)
		}
		if req, err := ep.CloseAsync(nil); req != nil || err != nil {
			t.Errorf("close in the handler: %v, %v", req, err)
		}
		next = a.connect(c)
		if _, err := next.TagSend(1, message(1), nil); err != nil {
			t.Error(err)
		}
	}})
	r.warm(ep, b)
	r.started(ep.TagSendSync(1, nil, &ucp.RequestParams{OnSend: o.onSend}))
	b.close()
	r.until("the handler", func() bool { return next != nil })
	r.arrived(c, 1)
	r.endpoints(1, a)
}

// testReceivesOutlive checks that posted receives, which belong to no endpoint, stay for other
// senders, and that messages of a lost sender can still be received.
func testReceivesOutlive(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b, c := r.open(), r.open(), r.open()
	ep := b.connectWith(a, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	r.warm(ep, a)
	r.must(ep.TagSend(5, message(5), nil))
	r.arrived(a, 5)
	offer := r.started(ep.TagSend(6, make([]byte, 8<<20), nil))
	r.arrived(a, 6)
	offer.Free()
	req := a.recvInto(1, ucp.FullMask, make([]byte, 16), nil)
	b.close()
	r.settle()
	got, _ := a.take(5, ucp.FullMask, 16)
	ucttest.SameBytes(t, "message of the lost peer", got, message(5))
	// The data of an offer is lost with the peer.
	rreq, err := a.TagRecv(6, ucp.FullMask, make([]byte, 8<<20), nil)
	if err := r.finish(rreq, err); err == nil {
		t.Error("data of a lost peer was received")
	}
	if req.Done() {
		t.Fatalf("the posted receive ended: %v", req.Err())
	}
	r.must(c.connect(a).TagSend(1, message(1), nil))
	r.must(req, nil)
}

// testPeerClosesEnd checks that operations that wait for a peer's answer end when the peer closes
// its endpoint, although its worker goes on.
func testPeerClosesEnd(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	var f failure
	ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: f.onError})
	r.warm(ep, b)
	back := b.connectWith(a, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	r.warm(back, a)
	r.losesEnd(ep, &f, b, back)
	b.take(1, ucp.FullMask, 8)
	r.inTheCall(ep.CloseAsync(nil))
}

// losesEnd has the peer b of ep close its endpoint by force while a message of ep waits at b for a
// receive. That ends both endpoints.
func (r *rig) losesEnd(ep *ucp.Endpoint, f *failure, b *side, back *ucp.Endpoint) {
	r.Helper()
	op := r.startSend(ep.TagSendSync, 8)
	r.arrived(b, 1)
	r.inTheCall(back.CloseAsync(force))
	r.until("the failure", func() bool { return f.calls > 0 })
	lost := errors.Is(f.err, ucs.ErrConnectionReset)
	if r.silent {
		lost = lost || errors.Is(f.err, ucs.ErrEndpointTimeout)
	}
	if !lost || !op.req.Done() || op.req.Err() == nil {
		r.Errorf("%v; the send: done %v, %v", f.err, op.req.Done(), op.req.Err())
	}
	op.req.Free()
}

// testStoppedPeer checks that a peer that does not progress does not count as lost, and that
// communication goes on when it progresses again.
func testStoppedPeer(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	var f failure
	ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: f.onError})
	r.warm(ep, b)
	var ops []started
	for range 100 {
		ops = append(ops, r.startSend(ep.TagSend, 70_000))
	}
	ops = append(ops, r.startSend(ep.TagSendSync, 1<<20))
	for range 5000 {
		a.Progress()
	}
	if f.calls != 0 || ep.Err() != nil || ops[100].req.Done() {
		t.Fatalf("handler ran %d times, %v", f.calls, ep.Err())
	}
	for i := range ops {
		r.arrived(b, 1)
		_, info := b.take(1, ucp.FullMask, 1<<20)
		if want := []int{70_000, 1 << 20}[i/100]; info.Length != want {
			t.Fatalf("message %d has %d bytes, want %d", i, info.Length, want)
		}
	}
	for _, op := range ops {
		r.must(op.req, nil)
		op.out.once(t)
	}
}

// testPeerClosesEndClosed is the same for a peer with WorkerParams.Closed, which has no endpoint to
// this worker after its close.
func testPeerClosesEndClosed(t *testing.T, tr transport) {
	r := newRig(t, tr)
	r.log.Allow("request of an unknown peer refused") // by transports with a connection to drop
	a, b := r.open(), r.openWith(ucp.ContextParams{Features: features}, ucp.WorkerParams{Closed: true})
	back := b.connectWith(a, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	var f failure
	ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: f.onError})
	r.warm(ep, b)
	r.warm(back, a)
	r.losesEnd(ep, &f, b, back)
	r.endpoints(0, b)
}
