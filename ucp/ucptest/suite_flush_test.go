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
	{"worker flush covers endpoints that close", twoSides | everySwitch, testFlushClosing},
}

// testFlush: a flush ends although a message is still unmatched.
func testFlush(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for range 2 { // before the connection stands, and after
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
	if req, err := a.Flush(&ucp.RequestParams{Flags: ucp.OpForceImmediate}); req != nil || !errors.Is(err, ucs.ErrNoResource) {
		t.Errorf("forced flush: %v, %v", req, err)
	}
	for range 3 {
		r.arrived(b, 1)
		b.take(1, 0, 50_000)
	}
	r.settle()
}

// testFlushClosing: a flush of the worker ends behind the closes under way, and
// ends also when an endpoint is released meanwhile.
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
	r.must(closing, nil)
	r.must(flush, nil)
	for _, req := range sends {
		if err := r.finish(req, nil); !errors.Is(err, ucs.ErrCanceled) {
			t.Errorf("send: %v", err)
		}
	}
}
