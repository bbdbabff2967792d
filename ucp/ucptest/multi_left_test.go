//go:build linux

package ucptest

import (
	"errors"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// Calls that are left to the goroutine that owns the worker, and that a callback affects before
// they are carried out.

// TestMultiLeftCanceled: a callback cancels a receive that was left to the callback's goroutine.
func TestMultiLeftCanceled(t *testing.T) {
	r := newRig(t, byName(t, "self").shared())
	a := r.open()
	ep := a.connect(a)
	do, letGo := a.held(ep)
	called := 0
	req := r.started(a.TagRecv(1, ucp.FullMask, nil, &ucp.RequestParams{
		UserData: &called,
		OnTagRecv: func(_ *ucp.Request, err error, _ ucp.TagRecvInfo, _ any) {
			if called++; !errors.Is(err, ucs.ErrCanceled) {
				t.Errorf("the callback of a receive that was canceled was told: %v", err)
			}
		},
	}))
	do(func() {
		if req.UserData() != &called {
			t.Error("a receive that was left to others has lost its user data")
		}
		a.Cancel(req)
	})
	letGo()
	if err := req.Err(); !errors.Is(err, ucs.ErrCanceled) || called != 1 {
		t.Errorf("a receive that was canceled before it was posted: %v, %d callbacks", err, called)
	}
	req.Free()
	r.echoes(ep, a)
}

// TestMultiLeftFreed: a callback frees a receive that was left to the callback's goroutine. The
// receive is posted, and its own callback does not run.
func TestMultiLeftFreed(t *testing.T) {
	r := newRig(t, byName(t, "self").shared())
	a := r.open()
	ep := a.connect(a)
	const many = 600 // so many that request objects are reused
	for _, canceled := range []bool{false, true} {
		do, letGo := a.held(ep)
		for range many {
			req := r.started(a.TagRecv(1, ucp.FullMask, make([]byte, 8), &ucp.RequestParams{
				OnTagRecv: func(*ucp.Request, error, ucp.TagRecvInfo, any) { t.Error("a callback runs behind Free") },
			}))
			do(func() {
				if canceled {
					a.Cancel(req)
				}
				req.Free()
			})
		}
		letGo()
		if !canceled {
			for range many {
				r.inTheCall(ep.TagSend(1, []byte("posted"), nil))
			}
		}
		if n := a.Stats().Unexpected; n != 0 {
			t.Errorf("%d messages were not received", n)
		}
		r.echoes(ep, a)
	}
}

// TestMultiLeftFails checks that the next flush reports an atomic operation that was complete for
// its caller but failed when it was carried out.
func TestMultiLeftFails(t *testing.T) {
	r := newRig(t, byName(t, "self").shared())
	a, _ := r.oneSidedPair()
	ep := a.connect(a)
	flushes := map[string]func(*ucp.RequestParams) (*ucp.Request, error){"endpoint": ep.Flush, "worker": a.Flush}
	for what, flush := range flushes {
		at := r.unpack(ep, a.expose(make([]byte, 8), 0))
		do, letGo := a.held(ep)
		r.inTheCall(ep.Atomic(ucp.AtomicAdd, make([]byte, 8), at.addr, at.key, nil))
		do(func() {
			if err := at.key.Close(); err != nil {
				t.Error(err)
			}
		})
		letGo()
		if err := r.finish(flush(nil)); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("a flush of the %s behind an operation whose key was closed: %v", what, err)
		}
		if err := r.finish(flush(nil)); err != nil {
			t.Errorf("the next flush of the %s: %v", what, err)
		}
	}
}

// TestMultiLeftMemory checks that memory of an operation cannot be closed while its call is left to
// another goroutine.
func TestMultiLeftMemory(t *testing.T) {
	r := newRig(t, byName(t, "self").shared())
	a := r.open()
	ep := a.connect(a)
	buf := make([]byte, 100_000)
	m, err := a.ctx.MemMap(ucp.MemMapParams{Buffer: buf})
	if err != nil {
		t.Fatal(err)
	}
	_, letGo := a.held(ep)
	req := r.started(ep.TagSend(1, buf, &ucp.RequestParams{Memory: m}))
	if err := m.Close(); !errors.Is(err, ucs.ErrBusy) {
		t.Errorf("closing memory that a message is to be sent from: %v", err)
	}
	letGo()
	r.must(a.TagRecv(1, ucp.FullMask, make([]byte, len(buf)), nil))
	r.must(req, nil)
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
