//go:build linux

package ucptest

import (
	"context"
	"encoding/binary"
	"errors"
	"os/exec"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// unattended are the transports over which background workers are tested.
var unattended = []string{"tcp", "posix", "sysv", "posix and cma"}

// patiently returns a context with a long timeout, for operations that must complete.
func patiently(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// TestBackgroundAnswers checks that a background worker answers its peers although the application
// makes no call on it.
func TestBackgroundAnswers(t *testing.T) {
	for _, name := range unattended {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, byName(t, name).shared())
			a := r.openWith(ucp.ContextParams{Features: oneSided | ucp.FeatureAM}, ucp.WorkerParams{Background: true})
			b := r.openWith(ucp.ContextParams{Features: oneSided | ucp.FeatureAM}, ucp.WorkerParams{})
			answered := make(chan string, 1)
			err := a.SetAMHandler(ucp.AMHandlerParams{ID: 1, Handler: func(m *ucp.AMMessage) error {
				_, err := m.Reply().AMSend(1, []byte("answer"), nil, nil)
				return err
			}})
			if err == nil {
				err = b.SetAMHandler(ucp.AMHandlerParams{ID: 1, Handler: func(m *ucp.AMMessage) error {
					answered <- string(m.Header())
					return nil
				}})
			}
			if err != nil {
				t.Fatal(err)
			}
			mem := a.expose(make([]byte, 1<<20), 0)
			ctx := patiently(t)
			ep, err := b.NewEndpoint(ucp.EndpointParams{Address: a.address()})
			if err != nil {
				t.Fatal(err)
			}
			packed, err := mem.PackRkey()
			if err != nil {
				t.Fatal(err)
			}
			key, err := ep.UnpackRkey(packed)
			if err != nil {
				t.Fatal(err)
			}
			r.keys = append(r.keys, key)
			at, buf := mem.Attr().Address, make([]byte, 1<<20)
			binary.NativeEndian.PutUint64(buf, 41)
			for round := range 3 { // an answered operation must not be the last
				var was [8]byte
				for what, err := range map[string]error{
					"put":    ep.PutWait(ctx, buf, at, key),
					"flush":  ep.FlushWait(ctx),
					"get":    ep.GetWait(ctx, buf, at, key),
					"atomic": ep.AtomicWait(ctx, ucp.AtomicAdd, was[:], at, key, was[:]),
				} {
					if err != nil {
						t.Fatalf("round %d: %s: %v", round, what, err)
					}
				}
				if got := binary.NativeEndian.Uint64(was[:]); got != 41 {
					t.Errorf("the word was %d", got)
				}
				if err := ep.AMSendWait(ctx, 1, []byte("question"), nil, ucp.AMSendReply); err != nil {
					t.Fatal(err)
				}
				waiting, stop := context.WithCancel(ctx)
				var answer string
				go func() {
					defer stop()
					select {
					case answer = <-answered:
					case <-ctx.Done():
					}
				}()
				b.Run(waiting)
				if answer != "answer" {
					t.Fatalf("round %d: answered %q", round, answer)
				}
			}
			if err := ep.Shutdown(ctx); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBackgroundMulti checks that every message arrives once, whole and in order, if goroutines
// wait on background workers and nothing else progresses them.
func TestBackgroundMulti(t *testing.T) {
	for _, name := range unattended {
		t.Run(name, func(t *testing.T) { newCrowd(t, byName(t, name).attended()).run() })
	}
}

// TestBackgroundWaits checks that each of many short waits of a goroutine ends, whatever the
// background goroutine is about to do.
func TestBackgroundWaits(t *testing.T) {
	for _, name := range unattended {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, byName(t, name).attended())
			a, b := r.pair()
			there, back := a.connect(b), b.connect(a)
			ctx := patiently(t)
			echoed := make(chan error, 1)
			n := 100 * steps()
			go func() {
				buf := make([]byte, 8)
				for range n {
					if _, err := b.TagRecvWait(ctx, 1, ^ucp.Tag(0), buf); err != nil {
						echoed <- err
						return
					}
					if err := back.TagSendWait(ctx, 2, buf); err != nil {
						echoed <- err
						return
					}
				}
				echoed <- nil
			}()
			buf, got := make([]byte, 8), make([]byte, 8)
			for i := range n {
				binary.NativeEndian.PutUint64(buf, uint64(i))
				if err := there.TagSendWait(ctx, 1, buf); err != nil {
					t.Fatal(err)
				}
				if i%64 == 0 {
					time.Sleep(1500 * time.Microsecond) // until no goroutine has waited for a while
				}
				if _, err := a.TagRecvWait(ctx, 2, ^ucp.Tag(0), got); err != nil {
					t.Fatal(err)
				}
				if binary.NativeEndian.Uint64(got) != uint64(i) {
					t.Fatalf("%x came back for %x", got, buf)
				}
			}
			if err := <-echoed; err != nil {
				t.Error(err)
			}
		})
	}
}

// TestBackgroundModes checks that Background requires a worker that any goroutine may use.
func TestBackgroundModes(t *testing.T) {
	r := newRig(t, byName(t, "tcp"))
	s := r.open()
	for _, mode := range []ucs.ThreadMode{ucs.ThreadModeSingle, ucs.ThreadModeSerialized} {
		w, err := s.ctx.NewWorker(ucp.WorkerParams{ThreadMode: mode, Background: true})
		if !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%v: %v", mode, err)
		}
		if err == nil {
			w.Close()
		}
	}
}

// TestBackgroundEnds checks that the background goroutine ends with the worker, whatever it does
// and whichever goroutine closes the worker. The rig checks that no goroutine and no descriptor is
// left.
func TestBackgroundEnds(t *testing.T) {
	for _, name := range append([]string{"self"}, unattended...) {
		t.Run(name, func(t *testing.T) {
			tr := byName(t, name).attended()
			t.Run("at once", func(t *testing.T) { newRig(t, tr).open() })
			r := newRig(t, tr)
			a, b := r.pair()
			var inside atomic.Pointer[error]
			if err := exec.Command("true").Run(); err != nil { // starting a process must still work
				t.Error(err)
			}
			done := make(chan struct{})
			req := r.started(b.TagRecv(0, 0, make([]byte, 8), &ucp.RequestParams{OnTagRecv: func(*ucp.Request, error, ucp.TagRecvInfo, any) {
				err := b.Worker.Close() // may run on the background goroutine
				inside.Store(&err)
				close(done)
			}}))
			defer req.Free()
			ep := a.connect(b)
			if _, err := ep.TagSend(1, make([]byte, 8), nil); err != nil {
				t.Fatal(err)
			}
			<-done
			if err := *inside.Load(); !errors.Is(err, ucs.ErrBusy) {
				t.Errorf("closed inside a callback: %v", err)
			}
			waiting := make(chan error, 2)
			for range 2 {
				go func() { waiting <- b.Run(context.Background()) }()
			}
			for range 2 {
				if err := b.Worker.Close(); err != nil {
					t.Error(err)
				}
			}
			for range 2 {
				if err := <-waiting; !errors.Is(err, ucs.ErrCanceled) && !errors.Is(err, ucs.ErrInvalidParam) {
					t.Errorf("who waits when the worker is closed: %v", err)
				}
			}
		})
	}
}

// TestBackgroundCloses checks that a close completes although the caller makes no further call.
func TestBackgroundCloses(t *testing.T) {
	for _, name := range unattended {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, byName(t, name).attended())
			a, b := r.pair()
			ep := a.connect(b)
			over := make(chan error, 1)
			req, err := ep.CloseAsync(&ucp.RequestParams{OnSend: func(_ *ucp.Request, err error, _ any) { over <- err }})
			if err != nil {
				t.Fatal(err)
			}
			if req == nil {
				over <- nil
			}
			if err := <-over; err != nil {
				t.Error(err)
			}
			req.Free()
		})
	}
}
