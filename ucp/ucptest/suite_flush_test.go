//go:build linux

package ucptest

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

var flushCases = []testCase{
	{"flush does not wait for a match", everySwitch, testFlush},
	{"worker flush", everySwitch, testWorkerFlush},
	{"forced flush", everySwitch, testForcedFlush},
	{"worker flush covers endpoints that close", twoSides | everySwitch, testFlushClosing},
}

// testFlush checks that a flush completes although a message is still unmatched.
func testFlush(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for range 2 { // before and after the connection is established
		var o outcome
		sync := r.started(ep.TagSendSync(1, make([]byte, 100), nil))
		large, err := ep.TagSend(1, make([]byte, 1<<20), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.must(ep.Flush(&ucp.RequestParams{OnSend: o.onSend, Flags: ucp.OpNoImmediate}))
		o.once(t)
		if sync.Done() {
			t.Error("the synchronous send is done without a receive")
		}
		r.arrived(b, 1)
		b.take(1, 0, 100)
		r.arrived(b, 1)
		b.take(1, 0, 1<<20)
		r.must(sync, nil)
		r.must(large, nil)
	}
}

func testWorkerFlush(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	r.must(a.Flush(nil)) // without endpoints
	for range 3 {
		ep := a.connect(b)
		sreq, err := ep.TagSend(1, make([]byte, 50_000), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer sreq.Free()
	}
	var o outcome
	r.must(a.Flush(&ucp.RequestParams{OnSend: o.onSend, Flags: ucp.OpNoImmediate, UserData: 4}))
	o.once(t)
	if o.data != 4 || o.err != nil {
		t.Errorf("callback: %+v", o)
	}
	for range 3 {
		r.arrived(b, 1)
		b.take(1, 0, 50_000)
	}
	r.settle()
}

// testForcedFlush checks that a forced flush completes in the call if there is nothing to wait for,
// and is otherwise refused without effect.
func testForcedFlush(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	r.inTheCall(a.Flush(forced)) // without endpoints
	ep := a.connect(b)
	for what, flush := range map[string]func(*ucp.RequestParams) (*ucp.Request, error){"endpoint": ep.Flush, "worker": a.Flush} {
		now := func(p *ucp.RequestParams) bool {
			req, err := flush(p)
			if req != nil || err != nil && err != ucs.ErrNoResource {
				t.Fatalf("forced flush of the %s: %v, %v", what, req, err)
			}
			return err == nil
		}
		now(forced) // before the connection is established, in the first round
		r.warm(ep, b)
		var o outcome
		own := new(ucp.Request)
		p := &ucp.RequestParams{Flags: ucp.OpForceImmediate, OnSend: o.onSend, Request: own}
		r.until("a forced flush of the "+what, func() bool { return now(p) })
		for range 2 {
			if !tr.busy && !now(forced) {
				t.Errorf("forced flush of the %s, of nothing: refused", what)
			}
		}
		if o.calls != 0 {
			t.Errorf("a flush that was done in the call has called back")
		}
		// A forced flush is refused while another flush waits.
		other, err := flush(&ucp.RequestParams{Request: own})
		if err != nil {
			t.Fatal(err)
		}
		if !other.Done() && now(forced) {
			t.Errorf("forced flush of the %s while another one waits: done", what)
		}
		r.must(other, nil)
	}
	if n := a.Stats().Failed; n != 0 {
		t.Errorf("%d operations failed", n)
	}
	r.settle()
}

var forced = &ucp.RequestParams{Flags: ucp.OpForceImmediate}

// testFlushClosing checks that a flush of the worker completes after closes in progress, even if an
// endpoint is released in between.
func testFlushClosing(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	one := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	two := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer})
	sends := []*ucp.Request{
		r.started(one.TagSendSync(1, nil, nil)),
		r.started(two.TagSendSync(2, nil, nil)),
	}
	closing, err := one.CloseAsync(nil)
	if err != nil {
		t.Fatal(err)
	}
	flush, err := a.Flush(nil)
	if err != nil {
		t.Fatal(err)
	}
	r.inTheCall(two.CloseAsync(force))
	r.arrived(b, 1) // the close waits for that
	b.take(1, ucp.FullMask, 16)
	r.must(closing, nil)
	r.must(flush, nil)
	r.must(sends[0], nil)
	if err := r.finish(sends[1], nil); !errors.Is(err, ucs.ErrCanceled) {
		t.Errorf("the send of the endpoint that was closed by force: %v", err)
	}
}
