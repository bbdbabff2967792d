//go:build linux

package ucptest

import (
	"context"
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// blockingRig opens one worker that is connected with itself over its transport, so that a blocking
// call progresses both sides.
func blockingRig(t *testing.T, tr transport, n int) (r *rig, a *side, there *ucp.Endpoint, w window) {
	r = newRig(t, tr)
	a = r.openWith(ucp.ContextParams{Features: oneSided}, ucp.WorkerParams{})
	there, _ = loop(r, a)
	return r, a, there, r.unpack(there, a.expose(make([]byte, n), 0))
}

// testBlockingForms checks the blocking form of each operation.
func testBlockingForms(t *testing.T, tr transport) {
	const most = 300_000
	r, a, ep, w := blockingRig(t, tr, most)
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{0, 8, 5000, most} {
		src, buf := ucttest.Pattern(n, uint64(n)), make([]byte, n)
		want := ucp.TagRecvInfo{SenderTag: 7, Length: n}

		recv := r.started(a.TagRecv(7, ucp.FullMask, buf, nil))
		must(ep.TagSendWait(ctx, 7, src))
		must(recv.Wait(ctx))
		ucttest.SameBytes(t, "message", buf, src)

		clear(buf)
		recv = r.started(a.TagRecv(7, ucp.FullMask, buf, nil))
		must(ep.TagSendSyncWait(ctx, 7, src))
		must(recv.Wait(ctx))
		ucttest.SameBytes(t, "synchronous message", buf, src)

		clear(buf)
		send, err := ep.TagSend(7, src, nil)
		must(err)
		info, err := a.TagRecvWait(ctx, 7, ucp.FullMask, buf)
		must(err)
		if info != want {
			t.Errorf("received %+v, want %+v", info, want)
		}
		must(send.Wait(ctx))
		ucttest.SameBytes(t, "received message", buf, src)

		clear(buf)
		send, err = ep.TagSendSync(7, src, nil)
		must(err)
		r.arrived(a, 7)
		m, _ := a.TagTake(7, ucp.FullMask)
		info, err = m.RecvWait(ctx, buf)
		must(err)
		if info != want {
			t.Errorf("received %+v, want %+v", info, want)
		}
		must(send.Wait(ctx))
		ucttest.SameBytes(t, "taken message", buf, src)

		clear(buf)
		must(ep.PutWait(ctx, src, w.addr, w.key))
		must(ep.FlushWait(ctx))
		ucttest.SameBytes(t, "put", w.Bytes()[:n], src)
		must(ep.GetWait(ctx, buf, w.addr, w.key))
		ucttest.SameBytes(t, "get", buf, src)
	}
	must(a.FlushWait(ctx))
	if _, err := (*ucp.TagMessage)(nil).RecvWait(ctx, nil); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("receiving no message: %v", err)
	}
}

// testBlockingRefused checks that a blocking call that is refused, as in a callback, starts
// nothing.
func testBlockingRefused(t *testing.T, tr transport) {
	r, a, ep, w := blockingRig(t, tr, 64)
	ran := false
	buf := make([]byte, 8)
	recv := r.started(a.TagRecv(1, ucp.FullMask, make([]byte, 100_000), &ucp.RequestParams{
		OnTagRecv: func(*ucp.Request, error, ucp.TagRecvInfo, any) {
			if ran = true; tr.loopback {
				return // runs in the call of the send, where waiting is an error of that caller
			}
			before := a.Stats()
			for what, call := range map[string]func(context.Context) error{
				"send":      func(ctx context.Context) error { return ep.TagSendWait(ctx, 2, buf) },
				"sync send": func(ctx context.Context) error { return ep.TagSendSyncWait(ctx, 2, buf) },
				"receive":   func(ctx context.Context) error { _, err := a.TagRecvWait(ctx, 2, 0, buf); return err },
				"put":       func(ctx context.Context) error { return ep.PutWait(ctx, buf, w.addr, w.key) },
				"get":       func(ctx context.Context) error { return ep.GetWait(ctx, buf, w.addr, w.key) },
				"atomic":    func(ctx context.Context) error { return ep.AtomicWait(ctx, ucp.AtomicAdd, buf, w.addr, w.key, nil) },
				"fetch 32": func(ctx context.Context) error {
					_, err := ucp.FetchAddWait[uint32](ctx, ep, w.addr, w.key, 1)
					return err
				},
				"fetch 64":     func(ctx context.Context) error { _, err := ucp.SwapWait[uint64](ctx, ep, w.addr, w.key, 1); return err },
				"flush":        ep.FlushWait,
				"worker flush": a.FlushWait,
			} {
				if err := call(t.Context()); !errors.Is(err, ucs.ErrInvalidParam) {
					t.Errorf("%s inside a callback: %v", what, err)
				}
			}
			if after := a.Stats(); after != before {
				t.Errorf("something was started: %+v, before %+v", after, before)
			}
		},
	}))
	r.must(ep.TagSend(1, make([]byte, 100_000), nil))
	r.must(recv, nil)
	if !ran {
		t.Error("the callback did not run")
	}
}

// testResultsStay checks that the results of a request can be read after Wait, until Free.
func testResultsStay(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	ep, _ := loop(r, a)
	for _, n := range []int{8, 100_000} {
		recv := r.started(a.TagRecv(0x10, 0xF0, make([]byte, n+9), &ucp.RequestParams{UserData: n}))
		send, err := ep.TagSendSync(0x17, make([]byte, n), nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := recv.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		info, err := recv.TagRecvInfo()
		if want := (ucp.TagRecvInfo{SenderTag: 0x17, Length: n}); err != nil || info != want {
			t.Errorf("after Wait: %+v, %v, want %+v", info, err, want)
		}
		if !recv.Done() || recv.Err() != nil || recv.UserData() != n {
			t.Errorf("after Wait: done %v, %v, user data %v", recv.Done(), recv.Err(), recv.UserData())
		}
		if err := send.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		recv.Free()
		send.Free()

		recv = r.started(a.TagRecv(1, ucp.FullMask, nil, nil))
		if err := recv.Wait(ended()); !errors.Is(err, ucs.ErrCanceled) {
			t.Fatal(err)
		}
		if _, err := recv.TagRecvInfo(); !recv.Done() || recv.Err() != ucs.ErrCanceled || err != ucs.ErrCanceled {
			t.Errorf("after a canceled Wait: done %v, %v, %v", recv.Done(), recv.Err(), err)
		}
		recv.Free()
	}
}

// testWords checks that the operations on words do what Atomic does, with numbers.
func testWords(t *testing.T, tr transport) {
	r, _, ep, w := blockingRig(t, tr, 64)
	ctx := t.Context()
	at32, at64 := w.addr&^7+8, w.addr&^7+16
	post := func(req *ucp.Request, err error) {
		t.Helper()
		r.must(req, err)
		r.must(ep.Flush(nil))
	}
	holds := func(what string, want uint64) {
		t.Helper()
		got32, err := ucp.FetchAddWait[uint32](ctx, ep, at32, w.key, 0)
		if err != nil {
			t.Fatal(err)
		}
		got64, err := ucp.FetchAddWait[uint64](ctx, ep, at64, w.key, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got32 != uint32(want) || got64 != want {
			t.Errorf("after %s: %#x and %#x, want %#x", what, got32, got64, want)
		}
	}
	y := uint64(0x1234_5678_9abc_def0)
	post(ep.Put(word32(uint32(y)), at32, w.key, nil))
	post(ep.Put(word64(y), at64, w.key, nil))
	const x = 0x0f0f_1111_ff00_0003
	for _, c := range []struct {
		name    string
		post32  func(*ucp.Endpoint, uint64, *ucp.Rkey, uint32, *ucp.RequestParams) (*ucp.Request, error)
		post64  func(*ucp.Endpoint, uint64, *ucp.Rkey, uint64, *ucp.RequestParams) (*ucp.Request, error)
		fetch32 func(*ucp.Endpoint, uint64, *ucp.Rkey, uint32, *uint32, *ucp.RequestParams) (*ucp.Request, error)
		fetch64 func(*ucp.Endpoint, uint64, *ucp.Rkey, uint64, *uint64, *ucp.RequestParams) (*ucp.Request, error)
		wait32  func(context.Context, *ucp.Endpoint, uint64, *ucp.Rkey, uint32) (uint32, error)
		wait64  func(context.Context, *ucp.Endpoint, uint64, *ucp.Rkey, uint64) (uint64, error)
		becomes func(y uint64) uint64
	}{
		{"add", ucp.PostAdd[uint32], ucp.PostAdd[uint64], ucp.FetchAdd[uint32], ucp.FetchAdd[uint64], ucp.FetchAddWait[uint32], ucp.FetchAddWait[uint64], func(y uint64) uint64 { return y + x }},
		{"and", ucp.PostAnd[uint32], ucp.PostAnd[uint64], ucp.FetchAnd[uint32], ucp.FetchAnd[uint64], ucp.FetchAndWait[uint32], ucp.FetchAndWait[uint64], func(y uint64) uint64 { return y & x }},
		{"or", ucp.PostOr[uint32], ucp.PostOr[uint64], ucp.FetchOr[uint32], ucp.FetchOr[uint64], ucp.FetchOrWait[uint32], ucp.FetchOrWait[uint64], func(y uint64) uint64 { return y | x }},
		{"xor", ucp.PostXor[uint32], ucp.PostXor[uint64], ucp.FetchXor[uint32], ucp.FetchXor[uint64], ucp.FetchXorWait[uint32], ucp.FetchXorWait[uint64], func(y uint64) uint64 { return y ^ x }},
		{"swap", nil, nil, ucp.Swap[uint32], ucp.Swap[uint64], ucp.SwapWait[uint32], ucp.SwapWait[uint64], func(uint64) uint64 { return x }},
	} {
		if c.post32 != nil {
			post(c.post32(ep, at32, w.key, uint32(x&0xffff_ffff), nil))
			post(c.post64(ep, at64, w.key, x, nil))
			y = c.becomes(y)
			holds(c.name, y)
		}
		old32, old64 := uint32(1), uint64(1)
		var o outcome
		p := &ucp.RequestParams{OnSend: o.onSend, Flags: ucp.OpNoImmediate}
		r.must(c.fetch32(ep, at32, w.key, uint32(x&0xffff_ffff), &old32, p))
		r.must(c.fetch64(ep, at64, w.key, x, &old64, p))
		if old32 != uint32(y) || old64 != y || o.calls != 2 {
			t.Errorf("fetching %s: %#x and %#x were there, want %#x; %d callbacks", c.name, old32, old64, y, o.calls)
		}
		y = c.becomes(y)
		holds("fetching "+c.name, y)
		got32, err32 := c.wait32(ctx, ep, at32, w.key, uint32(x&0xffff_ffff))
		got64, err64 := c.wait64(ctx, ep, at64, w.key, x)
		if got32 != uint32(y) || got64 != y || err32 != nil || err64 != nil {
			t.Errorf("waiting for %s: %#x, %v and %#x, %v, want %#x", c.name, got32, err32, got64, err64, y)
		}
		y = c.becomes(y)
		holds("waiting for "+c.name, y)
	}
	for _, compare := range []uint64{y, y + 1, y} {
		next := y + 77
		var old32 uint32
		var old64 uint64
		r.must(ucp.CompareSwap[uint32](ep, at32, w.key, uint32(compare), uint32(next), &old32, nil))
		r.must(ucp.CompareSwap[uint64](ep, at64, w.key, compare, next, &old64, nil))
		if old32 != uint32(y) || old64 != y {
			t.Errorf("compare-swap: %#x and %#x were there, want %#x", old32, old64, y)
		}
		if compare == y {
			y = next
		}
		holds("compare-swap", y)
		next = y + 78
		got32, err32 := ucp.CompareSwapWait[uint32](ctx, ep, at32, w.key, uint32(y), uint32(next))
		got64, err64 := ucp.CompareSwapWait[uint64](ctx, ep, at64, w.key, y, next)
		if got32 != uint32(y) || got64 != y || err32 != nil || err64 != nil {
			t.Errorf("waiting for compare-swap: %#x, %v and %#x, %v, want %#x", got32, err32, got64, err64, y)
		}
		y = next
		holds("waiting for compare-swap", y)
	}
	reply := make([]byte, 8)
	if err := ep.AtomicWait(ctx, ucp.AtomicAdd, word64(1), at64, w.key, reply); err != nil || string(reply) != string(word64(y)) {
		t.Errorf("%x, %v, want %x", reply, err, word64(y))
	}
}

// testWordParameters checks the parameters of operations on words, whose reply goes to an argument
// rather than to a ReplyBuffer.
func testWordParameters(t *testing.T, tr transport) {
	_, _, ep, w := blockingRig(t, tr, 64)
	at := w.addr &^ 7
	replies := &ucp.RequestParams{ReplyBuffer: make([]byte, 8)}
	var old32 uint32
	var old64 uint64
	for what, start := range map[string]func() (*ucp.Request, error){
		"add 32 with a reply":     func() (*ucp.Request, error) { return ucp.PostAdd[uint32](ep, at, w.key, 1, replies) },
		"add 64 with a reply":     func() (*ucp.Request, error) { return ucp.PostAdd[uint64](ep, at, w.key, 1, replies) },
		"fetch 32 with another":   func() (*ucp.Request, error) { return ucp.FetchAdd[uint32](ep, at, w.key, 1, &old32, replies) },
		"fetch 64 with another":   func() (*ucp.Request, error) { return ucp.FetchXor[uint64](ep, at, w.key, 1, &old64, replies) },
		"fetch to nowhere":        func() (*ucp.Request, error) { return ucp.FetchAdd[uint64](ep, at, w.key, 1, nil, nil) },
		"swap to nowhere":         func() (*ucp.Request, error) { return ucp.Swap[uint32](ep, at, w.key, 1, nil, nil) },
		"compare-swap to nowhere": func() (*ucp.Request, error) { return ucp.CompareSwap[uint64](ep, at, w.key, 1, 2, nil, nil) },
		"a receive's callback": func() (*ucp.Request, error) {
			return ucp.PostOr[uint64](ep, at, w.key, 1, &ucp.RequestParams{OnTagRecv: new(outcome).onRecv})
		},
		"misaligned":                func() (*ucp.Request, error) { return ucp.PostOr[uint64](ep, at+4, w.key, 1, nil) },
		"no key, with a value back": func() (*ucp.Request, error) { return ucp.Swap[uint64](ep, at, nil, 1, &old64, nil) },
	} {
		if req, err := start(); req != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: %v, %v", what, req, err)
		}
	}
}

// TestNoAllocationsBlocking checks that in steady state blocking calls allocate nothing, whatever
// the protocol.
func TestNoAllocationsBlocking(t *testing.T) {
	skipUnderRace(t)
	for _, tr := range rmaTransports {
		if !tr.frugal() {
			continue
		}
		t.Run(tr.name, func(t *testing.T) {
			r, a, ep, w := blockingRig(t, tr, 1<<20)
			ctx := t.Context()
			must := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			var old uint64
			at := w.addr&^7 + 8
			r.allocatesNothing("flush", func() { must(ep.FlushWait(ctx)) })
			r.allocatesNothing("worker flush", func() { must(a.FlushWait(ctx)) })
			r.allocatesNothing("add", func() {
				r.spin(ucp.PostAdd[uint64](ep, at, w.key, 1, nil))
				must(ep.FlushWait(ctx))
			})
			r.allocatesNothing("fetch", func() { r.spin(ucp.FetchAdd[uint64](ep, at, w.key, 1, &old, nil)) })
			r.allocatesNothing("compare-swap", func() { r.spin(ucp.CompareSwap[uint64](ep, at, w.key, 1, 2, &old, nil)) })
			r.allocatesNothing("fetch 32 and wait", func() { _, err := ucp.FetchOrWait[uint32](ctx, ep, at, w.key, 1); must(err) })
			r.allocatesNothing("compare-swap and wait", func() { _, err := ucp.CompareSwapWait[uint64](ctx, ep, at, w.key, 1, 2); must(err) })
			for _, n := range []int{8, 8192, 100_000} {
				src, buf := make([]byte, n), make([]byte, n)
				r.allocatesNothing(sizeText("send", n), func() {
					recv, err := a.TagRecv(1, ucp.FullMask, buf, nil)
					must(err)
					must(ep.TagSendWait(ctx, 1, src))
					must(recv.Wait(ctx))
					recv.Free()
				})
				r.allocatesNothing(sizeText("synchronous send", n), func() {
					recv, err := a.TagRecv(1, ucp.FullMask, buf, nil)
					must(err)
					must(ep.TagSendSyncWait(ctx, 1, src))
					must(recv.Wait(ctx))
					recv.Free()
				})
				r.allocatesNothing(sizeText("receive", n), func() {
					send, err := ep.TagSend(1, src, nil)
					must(err)
					_, err = a.TagRecvWait(ctx, 1, ucp.FullMask, buf)
					must(err)
					must(send.Wait(ctx))
					send.Free()
				})
				r.allocatesNothing(sizeText("put", n), func() { must(ep.PutWait(ctx, src, w.addr, w.key)); must(ep.FlushWait(ctx)) })
				r.allocatesNothing(sizeText("get", n), func() { must(ep.GetWait(ctx, buf, w.addr, w.key)) })
			}
		})
	}
}
