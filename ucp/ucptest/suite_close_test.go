//go:build linux

package ucptest

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var closeCases = []testCase{
	{"close delivers what was sent before", everySwitch, testCloseDelivers},
	{"close waits for what is not matched", anywhere, testCloseUnmatched},
	{"shutdown gives up", anywhere, testShutdownGivesUp},
	{"shutdown gives up what has not left", twoSides, testShutdownQueued},
	{"close, and the peer goes on", twoSides, testCloseFirst},
	{"close twice", anywhere, testCloseTwice},
	{"operations after close", anywhere, testAfterClose},
	{"close an unused endpoint", anywhere, testCloseUnused},
	{"close while the connection is made", twoSides, testCloseConnecting},
	{"close flags", anywhere, testCloseFlags},
	{"forced close", twoSides, testForcedClose},
	{"forced close needs peer mode", anywhere, testForcedCloseMode},
	{"shutdown with an ended context", twoSides, testShutdownEndedContext},
	{"close at once", anywhere, testCloseAtOnce},
	{"worker shutdown", anywhere, testWorkerShutdown},
	{"close inside a callback", everySwitch, testCloseInCallback},
	{"many endpoints come and go", everySwitch, testComeAndGo},
}

// force requests a forced close.
var force = &ucp.RequestParams{CloseFlags: ucp.CloseForce}

// closings are two ways to close an endpoint: by flush and by force, if the transport supports
// force.
func (tr transport) closings() []*ucp.RequestParams {
	if tr.loopback {
		return []*ucp.RequestParams{nil, nil}
	}
	return []*ucp.RequestParams{nil, force}
}

// testCloseDelivers checks that a close waits for all earlier sends, and that the peer gets them.
func testCloseDelivers(t *testing.T, tr transport) {
	r := newRig(t, tr.with(setting{"RNDV_THRESH", "inf"}))
	a, b := r.pair()
	ep := a.connect(b)
	lengths := []int{8, 0, 100_000, 8, 1 << 20, 5000, 8}
	var sreqs []*ucp.Request
	for i, n := range lengths {
		req, err := ep.TagSend(1, ucttest.Pattern(n, uint64(i)), nil)
		if err != nil {
			t.Fatal(err)
		}
		sreqs = append(sreqs, req)
	}
	var o outcome
	r.must(ep.CloseAsync(&ucp.RequestParams{OnSend: o.onSend, Flags: ucp.OpNoImmediate}))
	o.once(t)
	r.endpoints(0, a)
	for _, req := range sreqs {
		r.must(req, nil)
	}
	for i, n := range lengths {
		r.arrived(b, 1)
		got, _ := b.take(1, 0, 1<<20)
		ucttest.SameBytes(t, "message", got, ucttest.Pattern(n, uint64(i)))
	}
}

// testCloseUnmatched checks that a close waits until the receiver has matched all messages.
func testCloseUnmatched(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	var sync, rndv, closed outcome
	want := ucttest.Pattern(1<<22, 2)
	sreq := r.started(ep.TagSendSync(1, message(1), &ucp.RequestParams{OnSend: sync.onSend}))
	rreq := r.started(ep.TagSend(2, want, &ucp.RequestParams{OnSend: rndv.onSend, Flags: ucp.OpNoImmediate}))
	creq := r.started(ep.CloseAsync(&ucp.RequestParams{OnSend: closed.onSend}))
	r.arrived(b, 1)
	r.settle()
	if creq.Done() || sreq.Done() || rreq.Done() {
		t.Fatalf("over before the messages are matched: close %v, sync %v, rndv %v", creq.Done(), sreq.Done(), rreq.Done())
	}
	got, _ := b.take(1, 0, 16)
	ucttest.SameBytes(t, "message", got, message(1))
	got, _ = b.take(2, 0, 1<<22)
	ucttest.SameBytes(t, "rendezvous", got, want)
	r.must(sreq, nil)
	r.must(rreq, nil)
	r.must(creq, nil)
	for _, o := range []*outcome{&sync, &rndv, &closed} {
		o.once(t)
	}
	r.endpoints(0, a)
	if b != a {
		r.endpoints(0, b)
	}
}

// testShutdownGivesUp checks that a shutdown whose context ends cancels the operations that it
// waits for, reports them, and releases the endpoint.
func testShutdownGivesUp(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	sreq := r.started(ep.TagSendSync(1, message(1), nil))
	r.arrived(b, 1)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := ep.Shutdown(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "1 operations") {
		t.Errorf("shutdown: %v", err)
	}
	if err := r.finish(sreq, nil); !errors.Is(err, ucs.ErrCanceled) {
		t.Errorf("the send: %v", err)
	}
	r.endpoints(0, a)
	r.endpoints(0, b)
	b.take(1, 0, 16)
	r.settle()
}

// testShutdownQueued checks that a canceled shutdown also cancels offers that wait for room in
// their lane, in order and after the messages before them.
func testShutdownQueued(t *testing.T, tr transport) {
	r := newRig(t, tr.with(setting{"RNDV_THRESH", "10000"}))
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	var sent []*ucp.Request
	waits := func() bool { return len(sent) > 0 && !sent[len(sent)-1].Done() }
	for range 5000 { // until the lane is full, as b does not progress
		req := r.started(ep.TagSend(1, make([]byte, 8000), &ucp.RequestParams{Flags: ucp.OpNoImmediate}))
		sent = append(sent, req)
		if a.Progress(); waits() {
			if runtime.Gosched(); a.Progress() == 0 && waits() {
				break
			}
		}
	}
	var offers []*ucp.Request
	for range 3 {
		offers = append(offers, r.started(ep.TagSend(2, make([]byte, 100_000), nil)))
	}
	if err := ep.Shutdown(ended()); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "3 operations") {
		t.Errorf("shutdown: %v", err)
	}
	for range sent {
		r.arrived(b, 1)
		b.take(1, 0, 8000)
	}
	for _, req := range sent {
		r.must(req, nil)
	}
	for _, req := range offers {
		if err := r.finish(req, nil); !errors.Is(err, ucs.ErrCanceled) {
			t.Errorf("an offer: %v", err)
		}
	}
	r.endpoints(0, a)
	r.settle()
	for m, ok := b.TagTake(2, ucp.FullMask); ok; m, ok = b.TagTake(2, ucp.FullMask) { // were sent
		m.Discard()
	}
}

// testCloseFirst checks that in error mode none the peer of a closed endpoint is not notified. It
// can still send, and its messages are acknowledged.
func testCloseFirst(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	there, back := a.connect(b), b.connect(a)
	r.sendAndTake(there, b, 1, message(1))
	r.sendAndTake(back, a, 1, message(1))
	r.must(back.CloseAsync(nil))
	r.sendAndTake(there, b, 2, message(2))
	r.must(there.Flush(nil))
	r.must(there.CloseAsync(nil))
	if err := there.Err(); err != nil {
		t.Errorf("the endpoint has failed: %v", err)
	}
}

func testCloseTwice(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connectWith(b, ucp.EndpointParams{ErrMode: tr.peerMode()})
	r.warm(ep, b)
	first, err := ep.CloseAsync(nil)
	if err != nil {
		t.Fatal(err)
	}
	again := func() {
		t.Helper()
		for _, p := range []*ucp.RequestParams{nil, force} {
			if req, err := ep.CloseAsync(p); req != nil || !errors.Is(err, ucs.ErrNotConnected) {
				t.Errorf("second close: %v, %v", req, err)
			}
		}
		if err := ep.Shutdown(t.Context()); !errors.Is(err, ucs.ErrNotConnected) {
			t.Errorf("shutdown of what is being closed: %v", err)
		}
	}
	again()
	r.must(first, nil)
	again()
	for range 2 {
		if err := ep.Close(); err != nil {
			t.Errorf("close of what is closed: %v", err)
		}
	}
}

func testAfterClose(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	r.must(ep.CloseAsync(nil))
	r.settle()
	for what, call := range map[string]func() (*ucp.Request, error){
		"short": func() (*ucp.Request, error) { return ep.TagSend(1, message(1), nil) },
		"large": func() (*ucp.Request, error) { return ep.TagSend(1, make([]byte, 1<<20), nil) },
		"sync":  func() (*ucp.Request, error) { return ep.TagSendSync(1, nil, nil) },
		"flush": func() (*ucp.Request, error) { return ep.Flush(nil) },
		"blocking": func() (*ucp.Request, error) {
			return nil, ep.TagSendWait(t.Context(), 1, message(1))
		},
	} {
		if req, err := call(); req != nil || !errors.Is(err, ucs.ErrNotConnected) {
			t.Errorf("%s: %v, %v", what, req, err)
		}
	}
	if len(ep.Attr().Transports) != 0 || ep.Explain().String() == "" || ep.Attr().Name == "" {
		t.Error("a closed endpoint cannot be described")
	}
}

// testCloseUnused closes endpoints that are not connected yet, or being connected, with a callback,
// and with a request that is freed.
func testCloseUnused(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	var o outcome
	r.must(a.connect(b).CloseAsync(&ucp.RequestParams{OnSend: o.onSend, Flags: ucp.OpNoImmediate}))
	o.once(t)
	if o.err != nil {
		t.Errorf("the callback was told %v", o.err)
	}
	req, err := a.connect(b).CloseAsync(nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Free()
	if !tr.loopback {
		r.inTheCall(a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer}).CloseAsync(force))
	}
	r.until("the closes", func() bool { return a.Stats().Endpoints == 0 })
	r.settle()
	r.endpoints(0, a)
	if !tr.paired { // b has endpoints that were not notified of the close
		r.endpoints(0, b)
	}
}

// testCloseConnecting closes endpoints right after the first sends.
func testCloseConnecting(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	if _, err := ep.TagSend(1, message(1), nil); err != nil {
		t.Fatal(err)
	}
	r.must(ep.CloseAsync(nil))
	r.arrived(b, 1)
	got, _ := b.take(1, 0, 16)
	ucttest.SameBytes(t, "message", got, message(1))

	ep = a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	req := r.started(ep.TagSendSync(2, message(1), nil))
	r.inTheCall(ep.CloseAsync(force))
	if err := r.finish(req, nil); !errors.Is(err, ucs.ErrCanceled) {
		t.Errorf("send: %v", err)
	}
	r.settle()
	r.endpoints(0, a)
}

func testCloseFlags(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connectWith(b, ucp.EndpointParams{ErrMode: tr.peerMode()})
	for what, p := range map[string]*ucp.RequestParams{
		"unknown flag":        {CloseFlags: 1 << 9},
		"force, no-immediate": {CloseFlags: ucp.CloseForce, Flags: ucp.OpNoImmediate},
		"contradictory flags": {Flags: ucp.OpFastComplete | ucp.OpMultiSend},
	} {
		if req, err := ep.CloseAsync(p); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: %v, %v", what, req, err)
		}
	}
	if req, err := ep.CloseAsync(&ucp.RequestParams{Flags: ucp.OpForceImmediate}); req != nil || !errors.Is(err, ucs.ErrNoResource) {
		t.Errorf("close that must finish in the call: %v, %v", req, err)
	}
	r.warm(ep, b) // refused closes had no effect
	r.must(ep.CloseAsync(nil))
}

// testForcedClose checks that all operations end with Canceled, once, in the call, with and without
// a connection, even if the peer makes no progress.
func testForcedClose(t *testing.T, tr transport) {
	for _, connected := range []bool{false, true} {
		r := newRig(t, tr)
		a, b := r.pair()
		failed := 0
		ep := a.connectWith(b, ucp.EndpointParams{
			ErrMode: ucp.ErrModePeer,
			OnError: func(*ucp.Endpoint, error, any) { failed++ },
		})
		other := a.connect(b)
		if connected {
			r.warm(ep, b)
		}
		var outs [40]outcome
		var reqs []*ucp.Request
		for i := range outs {
			send, n := ep.TagSend, []int{1 << 20, 8, 70_000, 0}[i%4]
			if i%5 == 0 {
				send = ep.TagSendSync
			}
			req, err := send(1, make([]byte, n), &ucp.RequestParams{OnSend: outs[i].onSend, Flags: ucp.OpNoImmediate})
			if err != nil {
				t.Fatal(err)
			}
			reqs = append(reqs, req)
			a.Progress()
		}
		flush, err := ep.Flush(nil)
		if err != nil {
			t.Fatal(err)
		}
		r.inTheCall(ep.CloseAsync(force))
		canceled := 0
		for i, req := range reqs {
			if !req.Done() {
				t.Fatalf("send %d is not done", i)
			}
			outs[i].once(t)
			if err := req.Err(); err != nil {
				canceled++
				if !errors.Is(err, ucs.ErrCanceled) {
					t.Errorf("send %d: %v", i, err)
				}
			}
		}
		if canceled == 0 || flush != nil && !flush.Done() {
			t.Errorf("%d sends were canceled; flush %v", canceled, flush.Err())
		}
		if failed != 0 {
			t.Error("the error handler ran for a close of our own")
		}
		// The other endpoint of the worker is not affected.
		r.warm(other, b)
	}
}

func testForcedCloseMode(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	if req, err := ep.CloseAsync(force); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("forced close in mode none: %v, %v", req, err)
	}
	r.warm(ep, b)
	r.must(ep.CloseAsync(nil))
}

// testShutdownEndedContext checks that Shutdown stops waiting when its context ends, that the
// endpoint continues to close, and that Close ends this.
func testShutdownEndedContext(t *testing.T, tr transport) {
	r := newRig(t, tr.with(setting{"RNDV_THRESH", "inf"}))
	a, b := r.pair()
	silent := r.open()
	r.sides = r.sides[:2] // its worker does not progress
	defer silent.close()
	ep := a.connectWith(silent, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	var o outcome
	req := r.started(ep.TagSendSync(1, message(1), &ucp.RequestParams{OnSend: o.onSend}))
	if err := ep.Shutdown(ended()); !errors.Is(err, context.Canceled) {
		t.Errorf("shutdown: %v", err)
	}
	if err := ep.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if err := r.finish(req, nil); !errors.Is(err, ucs.ErrCanceled) {
		t.Errorf("send: %v", err)
	}
	o.once(t)
	r.endpoints(0, a)

	ep = a.connect(b)
	r.warm(ep, b) // an unconnected endpoint would have nothing acknowledged
	for range 20 {
		if _, err := ep.TagSend(1, make([]byte, 8000), nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := ep.Shutdown(ended()); err != nil && err != context.Canceled {
		t.Errorf("shutdown: %v", err)
	}
	for range 20 {
		r.arrived(b, 1)
		b.take(1, 0, 8000)
	}
	r.until("the end of the close", func() bool { return a.Stats().Endpoints == 0 })
}

// testCloseAtOnce checks that Close releases an endpoint of either mode in the call, with pending
// operations, also in a callback, and when it is called twice.
func testCloseAtOnce(t *testing.T, tr transport) {
	for _, mode := range []ucp.ErrMode{ucp.ErrModeNone, tr.peerMode()} {
		r := newRig(t, tr)
		r.log.Allow("")
		a, b := r.pair()
		ep := a.connectWith(b, ucp.EndpointParams{ErrMode: mode})
		other := a.connect(b)
		r.warm(ep, b)
		var sync, last outcome
		req := r.started(ep.TagSendSync(1, message(1), &ucp.RequestParams{OnSend: sync.onSend}))
		var inside error
		recv := r.started(a.TagRecv(2, ucp.FullMask, nil, &ucp.RequestParams{
			OnTagRecv: func(*ucp.Request, error, ucp.TagRecvInfo, any) { inside = ep.Close() },
		}))
		large, err := ep.TagSendSync(3, make([]byte, 1<<20), &ucp.RequestParams{OnSend: last.onSend})
		if err != nil {
			t.Fatal(err)
		}
		a.Cancel(recv) // its callback calls Close
		recv.Free()
		if inside != nil {
			t.Errorf("close inside a callback: %v", inside)
		}
		if err := ep.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
		for _, req := range []*ucp.Request{req, large} {
			if !errors.Is(req.Err(), ucs.ErrCanceled) {
				t.Errorf("a synchronous send ended with %v", req.Err())
			}
		}
		sync.once(t)
		last.once(t)
		if _, err := ep.TagSend(1, nil, nil); !errors.Is(err, ucs.ErrNotConnected) {
			t.Errorf("send: %v", err)
		}
		r.settle()
		for _, ok := b.TagPeek(0, 0); ok; _, ok = b.TagPeek(0, 0) { // messages that were sent
			m, _ := b.TagTake(0, 0)
			m.Discard()
		}
		// The other endpoint of the worker is not affected.
		r.warm(other, b)
	}
}

// testWorkerShutdown checks that all earlier sends are delivered before a shut-down worker is
// closed.
func testWorkerShutdown(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	const n = 10
	var eps []*ucp.Endpoint
	for range n {
		eps = append(eps, a.connect(b))
	}
	first, err := eps[0].CloseAsync(nil) // closed by the application before
	if err != nil {
		t.Fatal(err)
	}
	for i, ep := range eps[1:] {
		if _, err := ep.TagSend(ucp.Tag(i), ucttest.Pattern(8000, uint64(i)), nil); err != nil {
			t.Fatal(err)
		}
	}
	got := make([][]byte, n-1)
	var recvs []*ucp.Request
	for i := range got {
		got[i] = make([]byte, 8000)
		recvs = append(recvs, r.started(b.TagRecv(ucp.Tag(i), ucp.FullMask, got[i], &ucp.RequestParams{Flags: ucp.OpNoImmediate})))
	}
	for _, ep := range eps[1:] {
		r.warm(ep, b) // sends that wait for lanes would be canceled
	}
	if !tr.loopback {
		if err := a.Shutdown(ended()); err != nil && !errors.Is(err, context.Canceled) {
			t.Fatalf("a shutdown that is given up: %v", err)
		}
		stop := make(chan struct{})
		over := make(chan struct{})
		go func() { // the other side progresses meanwhile
			defer close(over)
			for {
				select {
				case <-stop:
					return
				default:
					b.Progress()
					runtime.Gosched() // the other side may share this CPU
				}
			}
		}()
		err = a.Shutdown(t.Context())
		close(stop)
		<-over
	} else {
		err = a.Shutdown(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	if !first.Done() {
		t.Error("a close of the user's is not done")
	}
	if err := a.Shutdown(t.Context()); err != nil {
		t.Errorf("second shutdown: %v", err)
	}
	if _, err := a.TagRecv(1, 0, nil, nil); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("a receive on a worker that was shut down: %v", err)
	}
	for i, req := range recvs {
		r.must(req, nil)
		ucttest.SameBytes(t, "message", got[i], ucttest.Pattern(8000, uint64(i)))
	}
}

// testCloseInCallback closes an endpoint, by flush and by force, in a callback of one of its own
// operations, with other operations behind it.
func testCloseInCallback(t *testing.T, tr transport) {
	for _, p := range tr.closings() {
		r := newRig(t, tr)
		a, b := r.pair()
		ep := a.connectWith(b, ucp.EndpointParams{ErrMode: tr.peerMode()})
		var closing *ucp.Request
		var closeErr error
		closed := false
		onSend := func(*ucp.Request, error, any) {
			if !closed {
				closed = true
				closing, closeErr = ep.CloseAsync(p)
			}
		}
		var reqs []*ucp.Request
		recvs := []*ucp.Request{r.started(b.TagRecv(1, 0, make([]byte, 200_000), nil))}
		if p == nil {
			for range 3 {
				recvs = append(recvs, r.started(b.TagRecv(1, 0, make([]byte, 200_000), nil)))
			}
		}
		for _, n := range []int{8, 200_000, 100, 100_000} {
			req, err := ep.TagSendSync(1, make([]byte, n), &ucp.RequestParams{OnSend: onSend})
			if errors.Is(err, ucs.ErrNotConnected) && closed {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			reqs = append(reqs, req)
		}
		r.until("the close", func() bool { return closed && closing.Done() })
		if closeErr != nil || closing.Err() != nil {
			t.Errorf("close: %v, %v", closeErr, closing.Err())
		}
		for i, req := range reqs {
			if err := r.finish(req, nil); err != nil && !errors.Is(err, ucs.ErrCanceled) {
				t.Errorf("send %d: %v", i, err)
			}
		}
		r.endpoints(0, a)
		r.must(recvs[0], nil)
		for _, recv := range recvs[1:] {
			b.Cancel(recv)
			if err := r.finish(recv, nil); err != nil && !errors.Is(err, ucs.ErrCanceled) {
				t.Errorf("receive: %v", err)
			}
		}
	}
}

// testComeAndGo checks that nothing is left of endpoints that are closed.
func testComeAndGo(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	for i := range 30 {
		there := a.connectWith(b, ucp.EndpointParams{ErrMode: tr.peerMode()})
		r.sendAndTake(there, b, 1, message(i))
		r.must(there.CloseAsync(tr.closings()[i%2]))
		if i%3 == 0 {
			back := b.connectWith(a, ucp.EndpointParams{ErrMode: tr.peerMode()})
			// The peer's endpoint has been closed. A message to it may be in flight, which gets no
			// answer over a queue pair.
			err := r.finish(back.CloseAsync(nil))
			if told := errors.Is(err, ucs.ErrEndpointTimeout) || errors.Is(err, ucs.ErrConnectionReset); err != nil && !(tr.paired && told) {
				t.Fatal(err)
			}
		}
		r.settle()
	}
	r.endpoints(0, a)
}
