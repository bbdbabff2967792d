//go:build linux

package ucptest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// Applications whose functions panic and that recover around their calls. Each panic is reported,
// and the workers go on.

var panicCases = []testCase{
	{"callbacks", fewSwitches, testPanicInCallback},
	{"inside of callbacks", anywhere, testPanicInside},
	{"datatypes", fewSwitches, testPanicInDatatype},
	{"error handlers", twoSides, testPanicInErrorHandler},
	{"closing", anywhere, testPanicAtClose},
	{"hooks of requests", anywhere, testPanicInHook},
}

// errPanic is the value that the functions of these tests panic with.
var errPanic = errors.New("a bug of the application")

// caught runs a call and returns the callback panic that it raises, nil for none.
func caught(t *testing.T, call func()) (p *ucp.CallbackPanic) {
	t.Helper()
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *ucp.CallbackPanic:
			p = v
			if !errors.Is(p, errPanic) || !strings.Contains(p.Error(), errPanic.Error()) {
				t.Errorf("the panic %v is not that of the callback", p.Value)
			}
			if !strings.Contains(p.Error(), "suite_panic_test.go") {
				t.Errorf("the panic does not say where it comes from: %s", p.Error())
			}
		default:
			t.Errorf("panicked with %v", v)
		}
	}()
	call()
	return nil
}

// panics counts the panics that the calls of a test raise.
type panics struct {
	*rig
	t      *testing.T
	raised int
}

// call makes a call that may raise a panic.
func (p *panics) call(call func()) {
	p.Helper()
	if caught(p.t, call) != nil {
		p.raised++
	}
}

// until progresses until cond holds, whatever panics are raised.
func (p *panics) until(what string, cond func() bool) {
	p.Helper()
	for !cond() {
		over := false
		p.call(func() {
			p.rig.until(what, cond)
			over = true
		})
		if p.t.Failed() || over {
			return
		}
	}
}

// testPanicInCallback: every completion callback panics. Each operation ends. Each panic is raised
// by a call, or logged if the call has raised another one. Later operations work.
func testPanicInCallback(t *testing.T, tr transport) {
	r := newRig(t, tr)
	r.log.Allow("another panic in a callback")
	a, b := r.pair()
	ep := a.connect(b)
	p := &panics{rig: r, t: t}
	for _, n := range []int{0, 8, 5000, 100_000, 1 << 20} {
		called := 0
		recv := &ucp.RequestParams{OnTagRecv: func(req *ucp.Request, err error, _ ucp.TagRecvInfo, _ any) {
			called++
			req.Free()
			panic(errPanic)
		}}
		send := &ucp.RequestParams{OnSend: func(req *ucp.Request, err error, _ any) {
			called++
			req.Free()
			panic(errPanic)
		}}
		before := p.raised
		for range 3 {
			p.call(func() { r.started(b.TagRecv(1, ucp.FullMask, make([]byte, n), recv)) })
			p.call(func() { ep.TagSendSync(1, make([]byte, n), send) })
		}
		p.until(fmt.Sprintf("callbacks of %d bytes", n), func() bool { return called == 6 })
		if p.raised == before {
			t.Errorf("%d bytes: no panic was raised", n)
		}
		for range 10 {
			r.progress()
		}
	}
	r.echoes(ep, b)
}

// TestPanicInReceive: a receive takes a message of the same worker, which completes the send in the
// call. The panic of the send's callback is raised by that call.
func TestPanicInReceive(t *testing.T) {
	r := newRig(t, byName(t, "self"))
	a, _ := r.pair()
	ep := a.connect(a)
	var reqs []*ucp.Request // leave idle request objects: allocating one would change the case
	for range 40 {
		reqs = append(reqs, r.started(a.TagRecv(1, ucp.FullMask, make([]byte, 8), nil)))
	}
	for _, req := range reqs {
		r.must(ep.TagSend(1, make([]byte, 8), nil))
		r.must(req, nil)
	}
	r.started(ep.TagSendSync(1, []byte("8 bytes."), &ucp.RequestParams{OnSend: func(req *ucp.Request, _ error, _ any) {
		req.Free()
		panic(errPanic)
	}}))
	// The message has already arrived.
	if caught(t, func() { a.TagRecv(1, ucp.FullMask, make([]byte, 8), nil) }) == nil {
		t.Error("the receive did not panic")
	}
	r.echoes(ep, a)
}

// testPanicInside: a callback panics during a call that another callback makes. That call returns,
// and the outermost one panics.
func testPanicInside(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	inner, returned := 0, false
	fail := &ucp.RequestParams{OnTagRecv: func(req *ucp.Request, _ error, _ ucp.TagRecvInfo, _ any) {
		inner++
		req.Free()
		panic(errPanic)
	}}
	posted := r.started(a.TagRecv(2, ucp.FullMask, nil, fail))
	outer := r.started(a.TagRecv(1, ucp.FullMask, nil, &ucp.RequestParams{OnTagRecv: func(*ucp.Request, error, ucp.TagRecvInfo, any) {
		a.Cancel(posted)
		a.Progress()
		returned = true
	}}))
	if caught(t, func() { a.Cancel(outer) }) == nil {
		t.Error("the outermost call did not panic")
	}
	if inner != 1 || !returned || !outer.Done() {
		t.Errorf("called %d times; the call inside returned: %v, the outer receive done: %v", inner, returned, outer.Done())
	}
	outer.Free()
	if p := caught(t, func() { a.Progress() }); p != nil {
		t.Errorf("a panic was raised twice: %v", p)
	}
	r.echoes(a.connect(a), a)
}

// echoes sends messages of all lengths and checks that they arrive.
func (r *rig) echoes(ep *ucp.Endpoint, to *side) {
	r.Helper()
	for i, n := range []int{0, 8, 5000, 100_000, 1 << 20} {
		src, buf := make([]byte, n), make([]byte, n)
		for k := range src {
			src[k] = byte(k + i)
		}
		recv := r.started(to.TagRecv(7, ucp.FullMask, buf, nil))
		r.must(ep.TagSendSync(7, src, nil))
		r.must(recv, nil)
		if string(src) != string(buf) {
			r.Fatalf("%d bytes: another message", n)
		}
	}
}

// faulty is a datatype of which one method panics.
type faulty struct {
	method            string
	started, finished int
	calls             int
}

func (f *faulty) in(method string) {
	if f.method == method {
		f.calls++
		panic(errPanic)
	}
}

func (f *faulty) StartPack(object any, _ int) (ucp.PackState, error) {
	f.in("StartPack")
	f.started++
	return faultyPack{f, object.([]byte)}, nil
}

func (f *faulty) StartUnpack(object any, _ int) (ucp.UnpackState, error) {
	f.in("StartUnpack")
	f.started++
	return faultyUnpack{f, object.([]byte)}, nil
}

type (
	faultyPack struct {
		f *faulty
		b []byte
	}
	faultyUnpack faultyPack
)

func (s faultyPack) PackedSize() int   { s.f.in("PackedSize"); return len(s.b) }
func (s faultyUnpack) PackedSize() int { s.f.in("PackedSize"); return len(s.b) }

func (s faultyPack) Finish()   { s.f.finished++; s.f.in("Finish") }
func (s faultyUnpack) Finish() { s.f.finished++; s.f.in("Finish") }

func (s faultyPack) Pack(off int, dst []byte) int { s.f.in("Pack"); return copy(dst, s.b[off:]) }

func (s faultyUnpack) Unpack(off int, src []byte) error {
	s.f.in("Unpack")
	copy(s.b[off:], src)
	return nil
}

// testPanicInDatatype checks that a panic in a datatype ends its operation with an error, that the
// state is finished, and that the panic is raised.
func testPanicInDatatype(t *testing.T, tr transport) {
	for _, method := range []string{"StartPack", "StartUnpack", "PackedSize", "Pack", "Unpack", "Finish"} {
		for _, n := range []int{100, 20_000, 1 << 20} {
			t.Run(fmt.Sprintf("%s of %d bytes", method, n), func(t *testing.T) {
				r := newRig(t, tr)
				r.log.Allow("another panic in a callback")
				a, b := r.pair()
				ep := a.connect(b)
				r.warm(ep, b)
				p := &panics{rig: r, t: t}
				f := &faulty{method: method}
				d := ucp.NewGeneric(f)
				sends, receives := method != "StartUnpack" && method != "Unpack", method != "StartPack" && method != "Pack"

				var recv, send *ucp.Request
				recvOver, sendOver := false, false
				if receives {
					p.call(func() {
						recvOver = true // unless the call returns
						var err error
						recv, err = b.TagRecv(1, ucp.FullMask, nil, &ucp.RequestParams{Buffer: ucp.Generic(d, make([]byte, n), n)})
						recvOver = recv == nil && err != nil
					})
				} else {
					recv = r.started(b.TagRecv(1, ucp.FullMask, make([]byte, n), nil))
				}
				if method == "PackedSize" { // a receive that failed at its start is not posted
					plain, err := ep.TagSend(1, []byte("plain"), nil)
					r.until("a message without a receive", func() bool { _, ok := b.TagPeek(1, ucp.FullMask); return ok })
					m, _ := b.TagTake(1, ucp.FullMask)
					m.Discard()
					r.must(plain, err)
				}
				p.call(func() {
					sendOver = true
					var err error
					if sends {
						send, err = ep.TagSend(1, nil, &ucp.RequestParams{Buffer: ucp.Generic(d, make([]byte, n), n)})
					} else {
						send, err = ep.TagSend(1, make([]byte, n), nil)
					}
					sendOver = send == nil && err != nil
				})
				// A send that fails at its start leaves the receive posted.
				if !recvOver && recv != nil && (send != nil || !sendOver) {
					p.until("the receive", func() bool {
						return recv.Done() || send != nil && send.Done() && send.Err() != nil && f.finished == f.started
					})
				}
				if send != nil && recv != nil && !recvOver {
					p.until("the send", send.Done)
				}
				if f.calls == 0 {
					t.Fatal("the method was not called: the test tests nothing")
				}
				if p.raised == 0 {
					t.Error("no panic was raised")
				}
				if method == "Unpack" && (recv == nil || !recv.Done() || recv.Err() == nil) {
					t.Error("the receive has not failed")
				}
				if send != nil && method == "Pack" && (!send.Done() || send.Err() == nil) {
					t.Error("the send has not failed")
				}
				f.method = "" // no more panics
				if recv != nil && !recv.Done() {
					b.Cancel(recv)
				}
				for range 100 {
					r.progress()
				}
				// A send that failed at its start has sent nothing.
				if info, ok := b.TagPeek(1, ucp.FullMask); ok && (method == "StartPack" || method == "PackedSize") {
					t.Errorf("a message of %d bytes has arrived", info.Length)
				}
				if tr.sim == nil && method != "Pack" && method != "StartUnpack" && method != "PackedSize" {
					r.echoes(ep, b)
				}
				for _, s := range r.sides {
					if err := s.Worker.Close(); err != nil {
						t.Error(err)
					}
				}
				if f.started != f.finished {
					t.Errorf("%d states were started, %d finished", f.started, f.finished)
				}
			})
		}
	}
}

// testPanicInErrorHandler checks an error handler that panics.
func testPanicInErrorHandler(t *testing.T, tr transport) {
	r := newRig(t, tr.with(setting{"KEEPALIVE_INTERVAL", "1ms"}))
	a, b := r.pair()
	called := 0
	ep := a.connectWith(b, ucp.EndpointParams{ErrMode: ucp.ErrModePeer, OnError: func(*ucp.Endpoint, error, any) {
		called++
		panic(errPanic)
	}})
	r.warm(ep, b)
	r.sides = r.sides[:1]
	b.close()
	p := &panics{rig: r, t: t}
	p.until("the failure", func() bool { return called > 0 })
	if p.raised != 1 || called != 1 {
		t.Errorf("%d calls, %d panics", called, p.raised)
	}
	if ep.Err() == nil {
		t.Error("the endpoint has not failed")
	}
	c := r.open()
	r.echoes(a.connect(c), c)
}

// testPanicAtClose checks callbacks that panic during Worker.Close. All of them are called, the
// worker is closed, and the first panic is raised.
func testPanicAtClose(t *testing.T, tr transport) {
	r := newRig(t, tr)
	r.log.Expect("another panic in a callback")
	a := r.open()
	called := 0
	for range 3 {
		r.started(a.TagRecv(1, ucp.FullMask, nil, &ucp.RequestParams{OnTagRecv: func(_ *ucp.Request, err error, _ ucp.TagRecvInfo, _ any) {
			called++
			if !errors.Is(err, ucs.ErrCanceled) {
				t.Errorf("ended with %v", err)
			}
			panic(fmt.Errorf("number %d: %w", called, errPanic))
		}}))
	}
	p := caught(t, func() { a.Worker.Close() })
	if p == nil || !strings.HasPrefix(fmt.Sprint(p.Value), "number 1:") || called != 3 {
		t.Errorf("%d calls, raised %v", called, p)
	}
	if err := a.Worker.Close(); err != nil {
		t.Error(err)
	}
}

// testPanicInHook checks a hook for request objects that panics, in any call that creates one.
func testPanicInHook(t *testing.T, tr transport) {
	r := newRig(t, tr)
	fail := true
	params := ucp.ContextParams{Features: features, TLS: r.tls, RequestInit: func(*ucp.Request) {
		if fail {
			panic(errPanic)
		}
	}}
	ctx, err := ucp.NewContext(params, r.config())
	if err != nil {
		t.Fatal(err)
	}
	if caught(t, func() { ctx.NewWorker(ucp.WorkerParams{}) }) == nil {
		t.Error("a worker was made")
	}
	if err := ctx.Close(); err != nil { // a worker would prevent this
		t.Error(err)
	}
	fail = false
	a := r.openWith(params, ucp.WorkerParams{})
	fail = true
	p := &panics{rig: r, t: t}
	for range 3 {
		p.call(func() { a.TagRecv(1, ucp.FullMask, nil, nil) })
	}
	if p.raised != 3 {
		t.Errorf("%d panics, want 3", p.raised)
	}
	fail = false
	r.echoes(a.connect(a), a)
}

// TestPanicInAccept checks that a connection for which Accept panics is refused, and that Accept
// may call the worker.
func TestPanicInAccept(t *testing.T) {
	for _, tr := range []transport{byName(t, "tcp"), byName(t, "tcp").shared()} {
		t.Run(tr.name, func(t *testing.T) {
			r := newRig(t, tr)
			r.log.Expect("refusing a connection: source address not in UCX_TCP_ALLOW")
			a := r.open()
			var b *side
			asked := 0
			b = r.openWith(ucp.ContextParams{Features: features}, ucp.WorkerParams{Accept: func(ucp.PeerInfo) bool {
				b.Stats()
				if asked++; asked == 1 {
					panic(errPanic)
				}
				return true
			}})
			ep := a.connect(b)
			p := &panics{rig: r, t: t}
			p.until("a connection", func() bool { return asked > 0 })
			if p.raised != 1 {
				t.Errorf("%d panics were raised, want one", p.raised)
			}
			if err := ep.Close(); err != nil {
				t.Error(err)
			}
			r.echoes(a.connect(b), b)
		})
	}
}
