//go:build linux

package ucptest

import (
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// TestMultiUntold checks that an operation that ends between a goroutine's last check and its sleep
// keeps the goroutine awake, whichever goroutine has ended the operation.
func TestMultiUntold(t *testing.T) {
	sleeps := []struct {
		name string
		busy func(a *side) bool
	}{
		{"wait", func(a *side) bool { return a.Wait(ended()) == nil }},
		{"arm", func(a *side) bool { return a.Arm() == ucs.ErrBusy }},
	}
	for _, s := range sleeps {
		t.Run(s.name, func(t *testing.T) {
			r := newRig(t, byName(t, "self").shared())
			a := r.open()
			ep := a.connect(a)
			r.warm(ep, a)
			for a.Progress() > 0 || s.busy(a) {
			}
			others := map[string]func() error{
				"a call": func() error { _, err := ep.TagSend(1, nil, nil); return err },
				"a wait": func() error { return ep.TagSendSyncWait(t.Context(), 1, nil) },
			}
			for what, end := range others {
				req := r.started(a.TagRecv(1, ucp.FullMask, nil, nil))
				if req.Done() {
					t.Fatal("a receive is done before the message is sent")
				}
				over := make(chan error)
				go func() { over <- end() }()
				if err := <-over; err != nil {
					t.Fatal(err)
				}
				for a.Progress() > 0 {
				}
				if !s.busy(a) {
					t.Errorf("an operation was ended by %s of another goroutine, and the one that looked before sleeps", what)
				}
				req.Free()
				for a.Progress() > 0 || s.busy(a) {
				}
			}
			r.inTheCall(ep.TagSend(1, nil, nil))
			_, letGo := a.held(ep)
			req := r.started(a.TagRecv(1, ucp.FullMask, nil, nil))
			if req.Done() {
				t.Fatal("a receive that is left to others is done")
			}
			letGo()
			if !s.busy(a) {
				t.Error("a receive that was left to others is done, and the one that looked before sleeps")
			}
			r.must(req, nil)
		})
	}
}
