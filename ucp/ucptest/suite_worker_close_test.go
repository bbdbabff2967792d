//go:build linux

package ucptest

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

var workerCloseCases = []testCase{
	{"worker close cancels everything", everySwitch, testWorkerClose},
	{"worker close drops what nobody received", everySwitch, testWorkerCloseDrops},
	{"callbacks of a closing worker start nothing", everySwitch, testWorkerCloseCallbacks},
	{"worker close inside a callback", twoSides | everySwitch, testWorkerCloseInCallback},
	{"a closed worker refuses", anywhere, testClosedWorker},
	{"a context with open workers", anywhere, testContextBusy},
}

// pile starts operations of all kinds that cannot finish without the peer.
func pile(r *rig, a, b *side, ep *ucp.Endpoint, note func(*ucp.Request, error)) (reqs []*ucp.Request) {
	r.Helper()
	onSend := func(req *ucp.Request, err error, _ any) { note(req, err) }
	onRecv := func(req *ucp.Request, err error, _ ucp.TagRecvInfo, _ any) { note(req, err) }
	d := newSlices()
	add := func(req *ucp.Request, err error) {
		r.Helper()
		reqs = append(reqs, r.started(req, err))
	}
	for _, mask := range []ucp.Tag{ucp.FullMask, 0xFF} {
		add(a.TagRecv(0x77, mask, make([]byte, 10), &ucp.RequestParams{OnTagRecv: onRecv}))
		mem := make([]byte, 10)
		add(a.TagRecv(0x78, mask, nil, &ucp.RequestParams{OnTagRecv: onRecv, Buffer: ucp.Generic(d.dt, mem, len(mem))}))
	}
	for _, n := range []int{0, 100, 9000, 100_000, 1 << 20} {
		mem := make([]byte, n)
		add(ep.TagSendSync(1, mem, &ucp.RequestParams{OnSend: onSend}))
		add(ep.TagSendSync(1, nil, &ucp.RequestParams{OnSend: onSend, Buffer: ucp.Generic(d.dt, mem, n)}))
	}
	r.Cleanup(func() {
		if d.started == 0 || d.started != d.finished {
			r.Errorf("generic states: %d started, %d finished", d.started, d.finished)
		}
	})
	return reqs
}

// testWorkerClose checks that closing a worker ends all operations in progress with Canceled, once
// each.
func testWorkerClose(t *testing.T, tr transport) {
	for _, progressed := range []bool{false, true} {
		r := newRig(t, tr)
		a, b := r.pair()
		ep := a.connect(b)
		calls := make(map[*ucp.Request]int)
		reqs := pile(r, a, b, ep, func(req *ucp.Request, _ error) { calls[req]++ })
		if progressed {
			r.settle()
		}
		flush, ferr := a.Flush(nil)
		if ferr != nil {
			t.Fatal(ferr)
		}
		flushed := flush.Done()
		a.close()
		if err := flush.Err(); !flushed && (!flush.Done() || !errors.Is(err, ucs.ErrCanceled)) {
			t.Errorf("flush of the worker: done %v, %v", flush.Done(), err)
		}
		for i, req := range reqs {
			if !req.Done() || calls[req] != 1 || !errors.Is(req.Err(), ucs.ErrCanceled) {
				t.Errorf("request %d: done %v, %v, the callback ran %d times", i, req.Done(), req.Err(), calls[req])
			}
		}
		if err := a.Worker.Close(); err != nil {
			t.Errorf("second close: %v", err)
		}
	}
}

// testWorkerCloseDrops checks that the memory of messages without a receive is released, whether
// they are complete, partial or offered.
func testWorkerCloseDrops(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	for _, n := range []int{8, 0, 20_000, 100_000, 1 << 20} {
		for _, tag := range []ucp.Tag{1, 2} {
			req, err := ep.TagSend(tag, make([]byte, n), nil)
			if err != nil {
				t.Fatal(err)
			}
			req.Free()
		}
		r.arrived(b, 2)
		if _, ok := b.TagTake(2, ucp.FullMask); !ok { // taken and never received
			t.Fatal("the message is gone")
		}
	}
	var list [][]byte
	for range 20 {
		list = append(list, make([]byte, 100_000))
	}
	req, err := ep.TagSend(3, nil, &ucp.RequestParams{Buffer: ucp.IOV(list...)})
	if err != nil {
		t.Fatal(err)
	}
	req.Free()
	b.Progress()
	b.close()
	if _, ok := b.TagPeek(0, 0); ok {
		t.Error("a message is left")
	}
}

// testWorkerCloseCallbacks checks that callbacks of a closing worker cannot start operations, so
// that a server that posts its receives again does not prevent the close.
func testWorkerCloseCallbacks(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	refused := 0
	pile(r, a, b, ep, func(*ucp.Request, error) {
		if refused > 100 {
			return
		}
		if req, err := a.TagRecv(0x77, 0xFF, nil, &ucp.RequestParams{OnTagRecv: func(*ucp.Request, error, ucp.TagRecvInfo, any) {
			t.Error("a receive was posted on a closing worker")
		}}); req == nil && err != nil {
			refused++
		}
		if req, err := ep.TagSend(1, make([]byte, 100_000), nil); req == nil && err != nil {
			refused++
		}
		if ep, err := a.NewEndpoint(ucp.EndpointParams{Address: b.address()}); ep == nil && err != nil {
			refused++
		}
		a.Progress()
		if err := a.Worker.Close(); err != nil {
			t.Errorf("nested close: %v", err)
		}
	})
	if tr.loopback {
		b = a
	}
	a.close()
	if refused == 0 {
		t.Error("no callback ran")
	}
}

// testWorkerCloseInCallback checks that Worker.Close is refused in a callback of the worker,
// without effect.
func testWorkerCloseInCallback(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	ep := a.connect(b)
	r.warm(ep, b)
	for _, n := range []int{8, 100_000} {
		ran := false
		req := r.started(b.TagRecv(1, 0, make([]byte, n), &ucp.RequestParams{
			OnTagRecv: func(*ucp.Request, error, ucp.TagRecvInfo, any) {
				ran = true
				if err := b.Worker.Close(); !errors.Is(err, ucs.ErrBusy) {
					t.Errorf("close: %v", err)
				}
			},
		}))
		sreq, err := ep.TagSend(1, make([]byte, n), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.must(req, nil)
		r.must(sreq, nil)
		if !ran {
			t.Error("the callback did not run")
		}
		r.sendAndTake(ep, b, 1, message(1))
	}
}

func testClosedWorker(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a, b := r.pair()
	addr := b.address()
	ep := a.connect(b)
	a.close()
	for what, call := range map[string]func() error{
		"send":     func() error { _, err := ep.TagSend(1, nil, nil); return err },
		"endpoint": func() error { _, err := a.NewEndpoint(ucp.EndpointParams{Address: addr}); return err },
		"receive":  func() error { _, err := a.TagRecv(1, 0, nil, nil); return err },
		"flush":    func() error { _, err := a.Worker.Flush(nil); return err },
		"close":    func() error { _, err := ep.CloseAsync(nil); return err },
		"run":      func() error { return a.Run(t.Context()) },
		"wait":     func() error { return a.Wait(t.Context()) },
		"arm":      func() error { return a.Arm() },
		"event fd": func() error { _, err := a.EventFD(); return err },
		"signal":   func() error { return a.Signal() },
	} {
		if err := call(); err == nil {
			t.Errorf("%s on a closed worker succeeded", what)
		}
	}
	if n := a.Progress(); n != 0 {
		t.Errorf("progress handled %d events", n)
	}
	if _, ok := a.TagPeek(0, 0); ok {
		t.Error("probe found a message")
	}
	if s := a.Stats(); s.Endpoints != 0 {
		t.Errorf("counters %+v", s)
	}
}

func testContextBusy(t *testing.T, tr transport) {
	r := newRig(t, tr)
	a := r.open()
	if err := a.ctx.Close(); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("closing a context with a worker: %v", err)
	}
	second, err := a.ctx.NewWorker(ucp.WorkerParams{})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	a.close()
	if err := a.ctx.Close(); err != nil {
		t.Errorf("second close: %v", err)
	}
	if _, err := a.ctx.NewWorker(ucp.WorkerParams{}); !errors.Is(err, ucs.ErrInvalidParam) {
		t.Errorf("a worker of a closed context: %v", err)
	}
}
