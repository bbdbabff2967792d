package ucp

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/race"
	"github.com/ucx-go/ucx/ucs"
)

// Calls of a worker that violate its rules of use: each is refused or panics, none is silently
// accepted.

// misuse runs a call and returns the value that it panics with, nil if it does not panic.
func misuse(call func()) (v any) {
	defer func() { v = recover() }()
	call()
	return nil
}

// elsewhere runs a call on another goroutine and returns the value that it panics with.
func elsewhere(call func()) any {
	c := make(chan any)
	go func() { c <- misuse(call) }()
	return <-c
}

// calls returns the calls that use the state of a worker, by name.
func (v *targetWorker) calls(r *Request, m *TagMessage) map[string]func() {
	return map[string]func(){
		"Progress":    func() { v.Progress() },
		"TagSend":     func() { v.ep.TagSend(1, nil, nil) },
		"TagSendSync": func() { v.ep.TagSendSync(1, nil, nil) },
		"TagRecv":     func() { v.TagRecv(1, FullMask, nil, nil) },
		"TagPeek":     func() { v.TagPeek(1, FullMask) },
		"TagTake":     func() { v.TagTake(1, FullMask) },
		"Recv":        func() { m.Recv(nil, nil) },
		"Discard":     func() { m.Discard() },
		"Cancel":      func() { v.Cancel(r) },
		"Free":        func() { r.Free() },
		"Flush":       func() { v.ep.Flush(nil) },
		"FlushAll":    func() { v.Flush(nil) },
		"Fence":       func() { v.Fence() },
		"NewEndpoint": func() { v.NewEndpoint(EndpointParams{Address: v.own.address}) },
		"UnpackRkey":  func() { v.ep.UnpackRkey(nil) },
	}
}

// taken sends a message to the worker itself and returns it as taken by TagTake.
func (v *targetWorker) taken(tag Tag) *TagMessage {
	v.Helper()
	if _, err := v.ep.TagSend(tag, []byte("taken"), nil); err != nil {
		v.Fatal(err)
	}
	for range 100 {
		if m, ok := v.TagTake(tag, FullMask); ok {
			return m
		}
		v.Progress()
	}
	v.Fatal("no message")
	return nil
}

// TestTwoGoroutines checks that a call that begins while another goroutine is in a call panics and
// says why. The test holds the worker as a call in progress would.
func TestTwoGoroutines(t *testing.T) {
	v := newTarget(t)
	r, err := v.TagRecv(9, FullMask, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := v.taken(8)
	for what, enter := range map[string]func(){
		"another call": v.owner.acquire,
		"the end of something": func() {
			if err := v.owner.acquireChecked(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for name, call := range v.calls(r, m) {
			enter() // this goroutine is now in a call
			got := elsewhere(call)
			v.owner.release()
			if err, ok := got.(error); !ok || !strings.Contains(err.Error(), "two goroutines use worker "+v.name) {
				t.Errorf("%s beside %s: %v", name, what, got)
			}
		}
	}
	v.owner.acquire()
	for name, end := range map[string]func() error{
		"worker":     v.Worker.Close,
		"endpoint":   v.ep.Close,
		"CloseAsync": func() error { _, err := v.ep.CloseAsync(nil); return err },
	} {
		var err error
		if p := elsewhere(func() { err = end() }); p != nil || !errors.Is(err, ucs.ErrBusy) {
			t.Errorf("closing beside another call, %s: %v, %v", name, err, p)
		}
	}
	v.owner.release()
	m.Discard()
	v.Cancel(r)
	r.Free()
	v.exchange()
}

// TestBesideRun checks that other calls are refused while a goroutine waits in Run, even asleep.
func TestBesideRun(t *testing.T) {
	v := newTarget(t)
	r, err := v.TagRecv(9, FullMask, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	m := v.taken(8)
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- v.Run(ctx) }()
	asleep := func() bool { // whether a goroutine waits for the armed event set
		buf := make([]byte, 1<<16)
		return strings.Contains(string(buf[:runtime.Stack(buf, true)]), "(*Set).Park")
	}
	for end := time.Now().Add(time.Minute); !asleep(); {
		if time.Now().After(end) {
			t.Fatal("Run does not sleep")
		}
		runtime.Gosched()
	}
	for name, call := range v.calls(r, m) {
		if got, ok := misuse(call).(error); !ok || !errors.Is(got, ucs.ErrBusy) {
			t.Errorf("%s beside Run: %v", name, got)
		}
	}
	for name, end := range map[string]func() error{
		"Worker.Close": v.Worker.Close, "Endpoint.Close": v.ep.Close, "Context.Close": v.ctx.Close,
		"Worker.Shutdown": func() error { return v.Worker.Shutdown(t.Context()) },
		"Run":             func() error { return v.Run(t.Context()) },
		"CloseAsync":      func() error { _, err := v.ep.CloseAsync(nil); return err },
		"Shutdown":        func() error { return v.ep.Shutdown(t.Context()) },
		"TagSendWait":     func() error { return v.ep.TagSendWait(t.Context(), 1, nil) },
	} {
		if err := end(); !errors.Is(err, ucs.ErrBusy) {
			t.Errorf("%s beside Run: %v", name, err)
		}
	}
	cancel()
	if err := <-over; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	m.Discard()
	v.Cancel(r)
	r.Free()
	v.exchange()
}

// TestGoexit: a callback has ended its goroutine in the middle of a call. The worker cannot be
// repaired, so every later call reports that.
func TestGoexit(t *testing.T) {
	v := newTarget(t)
	if _, err := v.TagRecv(1, FullMask, nil, &RequestParams{OnTagRecv: func(*Request, error, TagRecvInfo, any) { runtime.Goexit() }}); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		v.ep.TagSend(1, nil, nil)
		for range 100 {
			v.Progress()
		}
		t.Error("the callback did not end the goroutine")
	}()
	<-done
	for name, call := range v.calls(&Request{w: v.Worker}, &TagMessage{w: v.Worker, removed: true}) {
		if got, ok := misuse(call).(error); !ok || !strings.Contains(got.Error(), "has ended the goroutine") {
			t.Errorf("%s after a goroutine was lost: %v", name, got)
		}
	}
	for name, end := range map[string]func() error{"worker": v.Worker.Close, "endpoint": v.ep.Close} {
		if err := end(); err == nil || !strings.Contains(err.Error(), "has ended the goroutine") {
			t.Errorf("closing the %s after a goroutine was lost: %v", name, err)
		}
	}
	v.owner.gate = 0 // lets the test close the worker; transport self has lost nothing
}

// TestCloseTwiceAtOnce checks that of two goroutines that close a worker at the same time one
// closes it, and that the other call returns busy or, if the worker is already closed, nil.
func TestCloseTwiceAtOnce(t *testing.T) {
	for range 20 {
		v := newTarget(t)
		errs := make(chan error, 2)
		for range 2 {
			go func() { errs <- v.Worker.Close() }()
		}
		for range 2 {
			if err := <-errs; err != nil && !errors.Is(err, ucs.ErrBusy) {
				t.Error(err)
			}
		}
		if err := v.Worker.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestCloseInCallback checks Close in a callback of a send, where it is refused, and in a callback
// that Close itself runs, where it succeeds.
func TestCloseInCallback(t *testing.T) {
	v := newTarget(t)
	var inCall, inClose error = nil, errors.New("not called")
	for tag := range Tag(2) {
		if _, err := v.TagRecv(tag, FullMask, nil, &RequestParams{OnTagRecv: func(_ *Request, err error, _ TagRecvInfo, _ any) {
			if err == nil {
				inCall = v.Worker.Close()
			} else {
				inClose = v.Worker.Close()
			}
		}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := v.ep.TagSend(0, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := v.Worker.Close(); err != nil {
		t.Error(err)
	}
	if !errors.Is(inCall, ucs.ErrBusy) || inClose != nil {
		t.Errorf("inside a send: %v, inside Close: %v", inCall, inClose)
	}
}

// TestFreedTwice checks that a freed request object is not reused for another operation at once, so
// that a second Free is detected.
func TestFreedTwice(t *testing.T) {
	v := newTarget(t)
	receive := func() *Request {
		r, err := v.TagRecv(1, FullMask, make([]byte, 8), nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	finish := func(r *Request) {
		if _, err := v.ep.TagSend(1, make([]byte, 8), nil); err != nil {
			t.Fatal(err)
		}
		for range 100 {
			if r.Done() {
				return
			}
			v.Progress()
		}
		t.Fatal("no message")
	}
	for range 3 * quarantine { // fill the free list
		r := receive()
		finish(r)
		r.Free()
	}
	for others := range quarantine {
		old := receive()
		finish(old)
		old.Free()
		for range others {
			r := receive()
			finish(r)
			r.Free()
		}
		under := receive()
		for name, use := range map[string]func(){"Free": old.Free, "Done": func() { old.Done() }, "Err": func() { old.Err() }} {
			if misuse(use) == nil {
				t.Errorf("%s of a request that was freed %d requests ago went unnoticed", name, others)
			}
		}
		finish(under)
		under.Free()
	}

	// A request in flight: Free does not stop its operation, and a second Free is detected.
	r, err := v.ep.TagSendSync(5, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Free()
	if misuse(r.Free) == nil {
		t.Error("a second Free of a request in flight went unnoticed")
	}
	v.taken(8).Discard()
	v.exchange()
}

// TestTakenTwice checks that a message that was taken and then received or discarded cannot be used
// again, whatever messages have been taken since.
func TestTakenTwice(t *testing.T) {
	v := newTarget(t)
	for name, end := range map[string]func(*TagMessage) error{
		"received":  func(m *TagMessage) error { _, err := m.Recv(make([]byte, 8), nil); return err },
		"discarded": func(m *TagMessage) error { m.Discard(); return nil },
	} {
		old := v.taken(8)
		if err := end(old); err != nil {
			t.Fatal(name, err)
		}
		next := v.taken(8)
		if r, err := old.Recv(make([]byte, 8), nil); r != nil || !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("a message that was %s, received again: %v, %v", name, r, err)
		}
		old.Discard()
		if info, err := next.RecvWait(t.Context(), make([]byte, 8)); err != nil || info.Length != 5 {
			t.Errorf("the message behind one that was %s: %+v, %v", name, info, err)
		}
	}
	last := v.taken(8)
	if err := v.Worker.Close(); err != nil {
		t.Fatal(err)
	}
	if v.tag.taken.head != nil || v.accounts.Held() != 0 {
		t.Errorf("a closed worker holds %d bytes", v.accounts.Held())
	}
	if _, err := last.Recv(make([]byte, 8), nil); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("received after Close: %v", err)
	}
	if _, err := last.RecvWait(t.Context(), make([]byte, 8)); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("received after Close: %v", err)
	}
	last.Discard()
}

// nilStates is a datatype whose operations return no state.
type nilStates struct{}

func (nilStates) StartPack(any, int) (PackState, error)     { return nil, nil }
func (nilStates) StartUnpack(any, int) (UnpackState, error) { return nil, nil }

// TestNilState checks that an operation fails if its datatype returns no state.
func TestNilState(t *testing.T) {
	v := newTarget(t)
	b := Generic(NewGeneric(nilStates{}), nil, 1)
	p := &RequestParams{Buffer: b}
	if _, err := v.ep.TagSend(1, nil, p); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("send: %v", err)
	}
	if _, err := v.TagRecv(1, FullMask, nil, p); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("receive: %v", err)
	}
	if _, err := b.PackedSize(); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("size: %v", err)
	}
	if _, err := v.ep.TagSend(1, nil, &RequestParams{Buffer: Generic(NewGeneric(nil), nil, 1)}); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("a datatype without operations: %v", err)
	}
	v.exchange()
}

// keptStates is a datatype that allocates nothing.
type keptStates struct{ n int }

func (k *keptStates) StartPack(any, int) (PackState, error)     { return packKept{k}, nil }
func (k *keptStates) StartUnpack(any, int) (UnpackState, error) { return unpackKept{k}, nil }

type (
	packKept   struct{ *keptStates }
	unpackKept struct{ *keptStates }
)

func (s packKept) PackedSize() int          { return s.n }
func (s unpackKept) PackedSize() int        { return s.n }
func (packKept) Finish()                    {}
func (unpackKept) Finish()                  {}
func (packKept) Pack(_ int, dst []byte) int { return len(dst) }
func (unpackKept) Unpack(int, []byte) error { return nil }

// TestCalloutsDoNotAllocate checks that catching panics of callbacks and datatypes allocates
// nothing.
func TestCalloutsDoNotAllocate(t *testing.T) {
	if race.Enabled {
		t.Skip("allocations are not counted under the race detector")
	}
	v := newTarget(t)
	free := func(r *Request, _ error, _ any) { r.Free() }
	send := &RequestParams{Buffer: Generic(NewGeneric(&keptStates{100}), nil, 1), OnSend: free}
	recv := &RequestParams{Buffer: Generic(NewGeneric(&keptStates{100}), nil, 1),
		OnTagRecv: func(r *Request, _ error, _ TagRecvInfo, _ any) { r.Free() }}
	run := func() {
		if _, err := v.TagRecv(1, FullMask, nil, recv); err != nil {
			t.Fatal(err)
		}
		if _, err := v.ep.TagSendSync(1, nil, send); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			v.Progress()
		}
	}
	for range 4 * quarantine {
		run()
	}
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
