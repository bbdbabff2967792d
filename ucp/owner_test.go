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

// Calls of a worker that its user must not make: each is refused or panics, and
// nothing happens in silence.

// misuse runs a call and returns what it panics with, nil for nothing.
func misuse(call func()) (v any) {
	defer func() { v = recover() }()
	call()
	return nil
}

// elsewhere runs a call on a goroutine of its own.
func elsewhere(call func()) any {
	c := make(chan any)
	go func() { c <- misuse(call) }()
	return <-c
}

// calls are those that use the state of a worker.
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

// taken is a message in the hands of the user.
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

// TestTwoGoroutines: a call that begins while another goroutine is inside one panics
// and says why. The other goroutine is held in the middle of its call.
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
			enter() // this goroutine is inside
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

// TestBesideRun: who waits on a worker has it, asleep too.
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
	asleep := func() bool { // the armed event set is waited for
		buf := make([]byte, 1<<16)
		return strings.Contains(string(buf[:runtime.Stack(buf, true)]), "(*wakeup).park")
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

// TestGoexit: a callback ends its goroutine in the middle of a call. Nothing can put
// that right, so the next call says what has happened.
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
	v.owner.gate = 0 // for the end of the test: nothing of self is lost here
}

// TestCloseTwiceAtOnce: of two goroutines that close a worker one does, and the other
// is told that it is busy or closed.
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

// TestCloseInCallback: in a callback, and in one that Close itself runs.
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

// TestFreedTwice: a request that was freed is not used for another operation at once,
// so a second Free is found out.
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
	for range 3 * quarantine { // the free list is full
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

	// In flight: it goes on, and is freed once.
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

// TestTakenTwice: a message that was taken, and received or discarded, is nobody's
// any more, whatever has been taken since.
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
	if v.tag.taken.head != nil || v.accounts.held() != 0 {
		t.Errorf("a closed worker holds %d bytes", v.accounts.held())
	}
	if _, err := last.Recv(make([]byte, 8), nil); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("received after Close: %v", err)
	}
	if _, err := last.RecvWait(t.Context(), make([]byte, 8)); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("received after Close: %v", err)
	}
	last.Discard()
}

// nilStates is a datatype that starts nothing.
type nilStates struct{}

func (nilStates) StartPack(any, int) (PackState, error)     { return nil, nil }
func (nilStates) StartUnpack(any, int) (UnpackState, error) { return nil, nil }

// TestNilState: a datatype that returns no state fails the operation.
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

// TestCalloutsDoNotAllocate: catching panics costs no allocation.
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
