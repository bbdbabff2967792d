//go:build linux

package ucptest

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var completeCases = []testCase{
	{"a nil request means no callback", prompt, testNilRequest},
	{"no-immediate send", prompt, testNoImmediateSend},
	{"no-immediate receive", anywhere, testNoImmediateRecv},
	{"callback runs once with its data", everySwitch, testCallback},
	{"receive info is for immediate success", everySwitch, testTagInfo},
	{"contradictory flags", anywhere, testContradictions},
	{"fast-complete and multi-send", everySwitch, testHints},
	{"fast-complete buffers more", anywhere, testFastComplete},
	{"synchronous send waits for the match", everySwitch, testSyncWaits},
	{"parameters are read in the call", everySwitch, testParamsReused},
	{"memory types", anywhere, testMemoryTypes},
	{"a taken message and parameters of other calls", anywhere, testForeignToMessage},
	{"sending from callbacks", everySwitch, testSendFromCallback},
	{"no progress inside callbacks", everySwitch, testNestedProgress},
}

// testNilRequest checks that an operation that completes in its call never runs a callback.
func testNilRequest(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	var send, recv outcome
	r.inTheCall(ep.TagSend(1, message(1), &ucp.RequestParams{OnSend: send.onSend}))
	r.arrived(b, 1)
	r.inTheCall(b.TagRecv(1, ucp.FullMask, make([]byte, 16), &ucp.RequestParams{OnTagRecv: recv.onRecv}))
	r.settle()
	if send.calls+recv.calls != 0 {
		t.Errorf("callbacks ran: send %d times, receive %d times", send.calls, recv.calls)
	}
	// The methods of a nil request report a completed operation.
	var none *ucp.Request
	none.Free()
	a.Cancel(none)
	if !none.Done() || none.Err() != nil || none.UserData() != nil || none.Wait(t.Context()) != nil {
		t.Error("a nil request is not done")
	}
	if _, err := none.TagRecvInfo(); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("receive info of a nil request: %v", err)
	}
	if _, err := none.Attr(); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("query of a nil request: %v", err)
	}
}

// testNoImmediateSend checks that UCP_OP_ATTR_FLAG_NO_IMM_CMPL returns a request even if the send
// is complete and its callback has run.
func testNoImmediateSend(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	var o outcome
	p := &ucp.RequestParams{Flags: ucp.OpNoImmediate, OnSend: o.onSend, UserData: "mine"}
	req := r.started(ep.TagSend(1, message(1), p))
	if !req.Done() || req.Err() != nil {
		t.Fatalf("request: done %v, %v", req.Done(), req.Err())
	}
	o.once(t)
	if o.req != req || o.data != "mine" || o.err != nil {
		t.Errorf("callback was told %+v", o)
	}
	req.Free()
	r.settle()
	o.once(t)
}

func testNoImmediateRecv(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.must(ep.TagSend(1, message(1), nil))
	r.arrived(b, 1)
	var o outcome
	info := ucp.TagRecvInfo{SenderTag: 77, Length: 77}
	p := &ucp.RequestParams{Flags: ucp.OpNoImmediate, OnTagRecv: o.onRecv, UserData: 5, TagInfo: &info}
	req := r.started(b.TagRecv(1, ucp.FullMask, make([]byte, 20), p))
	if !req.Done() {
		t.Fatal("request is not done")
	}
	o.once(t)
	want := ucp.TagRecvInfo{SenderTag: 1, Length: 16}
	if got, err := req.TagRecvInfo(); got != want || err != nil || o.info != want || o.data != 5 {
		t.Errorf("request has %+v, %v; callback was told %+v", got, err, o)
	}
	if info.Length != 77 {
		t.Errorf("TagInfo was filled: %+v", info)
	}
	req.Free()
}

// testCallback checks that an operation that does not complete in its call runs its callback once,
// during Progress, with the request, the result and the user data.
func testCallback(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, n := range []int{0, 8, 100_000} {
		var send, recv outcome
		rreq := r.started(b.TagRecv(1, ucp.FullMask, make([]byte, n), &ucp.RequestParams{OnTagRecv: recv.onRecv, UserData: "r"}))
		sreq := r.started(ep.TagSendSync(1, make([]byte, n), &ucp.RequestParams{OnSend: send.onSend, UserData: "s"}))
		if rreq.UserData() != "r" || sreq.UserData() != "s" {
			t.Errorf("user data %v, %v", rreq.UserData(), sreq.UserData())
		}
		r.until("both ends", func() bool { return rreq.Done() && sreq.Done() })
		r.settle()
		send.once(t)
		recv.once(t)
		if send.req != sreq || send.err != nil || send.data != "s" {
			t.Errorf("send callback: %+v", send)
		}
		if want := (ucp.TagRecvInfo{SenderTag: 1, Length: n}); recv.req != rreq || recv.err != nil || recv.data != "r" || recv.info != want {
			t.Errorf("receive callback: %+v", recv)
		}
		sreq.Free()
		rreq.Free()
	}
}

// testTagInfo checks that RequestParams.TagInfo is written if the receive succeeds in its call, and
// only then.
func testTagInfo(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	untouched := ucp.TagRecvInfo{SenderTag: 9, Length: 9}
	for _, n := range []int{16, 100_000} {
		info := untouched
		sreq, serr := ep.TagSend(1, make([]byte, n), nil)
		r.arrived(b, 1)
		req, err := b.TagRecv(1, ucp.FullMask, make([]byte, n), &ucp.RequestParams{TagInfo: &info})
		if req == nil && err == nil {
			if want := (ucp.TagRecvInfo{SenderTag: 1, Length: n}); info != want {
				t.Errorf("%d bytes in the call: %+v", n, info)
			}
		} else if info != untouched {
			t.Errorf("%d bytes, not yet done: %+v", n, info)
		}
		r.must(req, err)
		r.must(sreq, serr)

		info = untouched
		sreq, serr = ep.TagSend(1, make([]byte, n), nil)
		r.arrived(b, 1)
		req, err = b.TagRecv(1, ucp.FullMask, make([]byte, n-1), &ucp.RequestParams{TagInfo: &info})
		if err := r.finish(req, err); !errors.Is(err, ucs.ErrMessageTruncated) || info != untouched {
			t.Errorf("%d bytes, truncated: %v, %+v", n, err, info)
		}
		r.must(sreq, serr)
	}
}

func testContradictions(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, p := range []ucp.RequestParams{
		{Flags: ucp.OpNoImmediate | ucp.OpForceImmediate},
		{Flags: ucp.OpFastComplete | ucp.OpMultiSend},
		{MemoryType: 100},
	} {
		for what, call := range map[string]func() (*ucp.Request, error){
			"send":    func() (*ucp.Request, error) { return ep.TagSend(1, message(1), &p) },
			"sync":    func() (*ucp.Request, error) { return ep.TagSendSync(1, message(1), &p) },
			"receive": func() (*ucp.Request, error) { return b.TagRecv(1, ucp.FullMask, make([]byte, 16), &p) },
		} {
			if req, err := call(); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
				t.Errorf("%s with flags %#x, memory %d: %v, %v", what, p.Flags, p.MemoryType, req, err)
			}
		}
	}
	r.settle()
	if _, ok := b.TagPeek(0, 0); ok {
		t.Error("a refused send arrived")
	}
}

// testHints checks that the flags that only ask for speed do not change what arrives.
func testHints(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, flags := range []ucp.OpFlags{ucp.OpFastComplete, ucp.OpMultiSend} {
		for _, n := range sizes {
			src, buf := ucttest.Pattern(n, uint64(flags)), make([]byte, n)
			// Fast completion is a flag of senders.
			rreq := r.started(b.TagRecv(1, ucp.FullMask, buf, &ucp.RequestParams{Flags: flags & ucp.OpMultiSend}))
			sreq, err := ep.TagSend(1, src, &ucp.RequestParams{Flags: flags})
			r.must(rreq, nil)
			r.must(sreq, err)
			ucttest.SameBytes(t, "message", buf, src)
		}
	}
}

// testFastComplete checks that UCP_OP_ATTR_FLAG_FAST_CMPL raises the size up to which messages are
// buffered rather than offered to UCX_RNDV_SEND_NBR_THRESH. Such a send is complete without a
// receive.
func testFastComplete(t *testing.T, tr transport) {
	const n = 300_000
	r := newRig(t, tr.with(setting{"RNDV_SEND_NBR_THRESH", "1m"}))
	a, b := r.pair()
	ep := a.connect(b)
	fast := &ucp.RequestParams{Flags: ucp.OpFastComplete}
	r.must(ep.TagSend(1, make([]byte, n), fast))
	if s := a.Stats(); s.RndvSends != 0 {
		t.Errorf("a fast send was offered: %+v", s)
	}
	offer, err := ep.TagSend(2, make([]byte, 4*n), fast)
	if err != nil {
		t.Fatal(err)
	}
	for tag, n := range map[ucp.Tag]int{1: n, 2: 4 * n} {
		r.arrived(b, tag)
		if _, info := b.take(tag, ucp.FullMask, n); info.Length != n {
			t.Errorf("%d bytes, want %d", info.Length, n)
		}
	}
	r.must(offer, nil)
	if s := a.Stats(); s.RndvSends != 1 {
		t.Errorf("%d offers for a send above both thresholds", s.RndvSends)
	}
}

// testSyncWaits checks that a synchronous send, even of no bytes, is not complete before the
// receiver has matched it, and is complete then.
func testSyncWaits(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, n := range []int{0, 1, 5000, 100_000} {
		var o outcome
		req := r.started(ep.TagSendSync(1, make([]byte, n), &ucp.RequestParams{OnSend: o.onSend}))
		r.arrived(b, 1)
		r.settle()
		if req.Done() || o.calls != 0 {
			t.Fatalf("%d bytes: done without a receive", n)
		}
		b.take(1, ucp.FullMask, n)
		r.must(req, nil)
		o.once(t)
	}
}

// testParamsReused checks that RequestParams are read during the call only.
func testParamsReused(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	var o, wrong outcome
	p := new(ucp.RequestParams)
	buf := make([]byte, 100_000)
	src := ucttest.Pattern(len(buf), 2)
	*p = ucp.RequestParams{Buffer: pieces(buf), OnTagRecv: o.onRecv, UserData: 1}
	rreq := r.started(b.TagRecv(1, ucp.FullMask, nil, p))
	*p = ucp.RequestParams{Buffer: pieces(src), OnSend: o.onSend, UserData: 2}
	sreq := r.started(ep.TagSendSync(1, nil, p))
	*p = ucp.RequestParams{OnSend: wrong.onSend, OnTagRecv: wrong.onRecv, MemoryType: 100, Flags: ^ucp.OpFlags(0)}
	r.must(rreq, nil)
	r.must(sreq, nil)
	if o.calls != 2 || wrong.calls != 0 {
		t.Errorf("callbacks ran %d times, the later ones %d times", o.calls, wrong.calls)
	}
	ucttest.SameBytes(t, "message", buf, src)
}

func testMemoryTypes(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.must(ep.TagSend(1, message(1), &ucp.RequestParams{MemoryType: ucs.MemoryHost}))
	r.arrived(b, 1)
	r.must(b.TagRecv(1, ucp.FullMask, make([]byte, 16), &ucp.RequestParams{MemoryType: ucs.MemoryHost}))
	p := &ucp.RequestParams{MemoryType: ucs.MemoryHost + 1}
	if req, err := ep.TagSend(1, message(1), p); req != nil || !errors.Is(err, ucs.ErrUnsupported) {
		t.Errorf("device memory: %v, %v", req, err)
	}
}

// testSendFromCallback checks that callbacks may start operations, and that a long chain of them
// neither grows the stack without bound nor changes the order.
func testSendFromCallback(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	there, back := a.connect(b), b.connect(a)
	const rounds = 2000
	buf := make([]byte, 300)
	pings, pongs := 0, 0
	var failed error
	note := func(req *ucp.Request, err error) {
		if err != nil && failed == nil {
			failed = err
		}
		_ = req // left to the garbage collector, not freed
	}
	var recvPing, recvPong func()
	recvPing = func() {
		note(b.TagRecv(1, ucp.FullMask, buf[:100], &ucp.RequestParams{OnTagRecv: func(req *ucp.Request, err error, _ ucp.TagRecvInfo, _ any) {
			if err != nil {
				return
			}
			pings++
			req.Free()
			recvPing()
			note(back.TagSend(2, buf[100:200], nil))
		}}))
	}
	recvPong = func() {
		note(a.TagRecv(2, ucp.FullMask, buf[200:], &ucp.RequestParams{OnTagRecv: func(req *ucp.Request, err error, _ ucp.TagRecvInfo, _ any) {
			if err != nil {
				return
			}
			pongs++
			req.Free()
			if pongs < rounds {
				recvPong()
				note(there.TagSend(1, buf[:100], nil))
			}
		}}))
	}
	recvPing()
	recvPong()
	note(there.TagSend(1, buf[:100], nil))
	r.until("the conversation", func() bool { return pongs == rounds || failed != nil })
	if failed != nil || pings != rounds {
		t.Errorf("%d pings, %d pongs, %v", pings, pongs, failed)
	}
}

// testNestedProgress checks that Progress in a callback does nothing, and that blocking calls are
// refused there.
func testNestedProgress(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	ran := false
	req := r.started(b.TagRecv(1, ucp.FullMask, make([]byte, 100_000), &ucp.RequestParams{
		OnTagRecv: func(req *ucp.Request, err error, _ ucp.TagRecvInfo, _ any) {
			ran = true
			if n := b.Progress(); n != 0 {
				t.Errorf("nested Progress handled %d events", n)
			}
			if tr.loopback {
				return // runs in the call of the send, where waiting is an error of that caller
			}
			if err := b.Wait(t.Context()); !errors.Is(err, ucs.ErrInvalidParam) {
				t.Errorf("nested Wait: %v", err)
			}
			if err := b.Run(t.Context()); !errors.Is(err, ucs.ErrInvalidParam) {
				t.Errorf("nested Run: %v", err)
			}
		},
	}))
	r.must(ep.TagSend(1, make([]byte, 100_000), nil))
	r.must(req, nil)
	if !ran {
		t.Error("the callback did not run")
	}
}
