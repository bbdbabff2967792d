package ucp_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// Tests for every system: a worker with an endpoint to itself.

// alone opens a worker in a thread mode, with an endpoint to itself.
func alone(t *testing.T, mode ucs.ThreadMode) (*ucp.Context, *ucp.Worker, *ucp.Endpoint) {
	t.Helper()
	cfg, err := ucp.ReadConfig("", "")
	if err != nil {
		t.Fatal(err)
	}
	if err := cfg.Modify("TLS", "self"); err != nil {
		t.Fatal(err)
	}
	features := ucp.FeatureTag | ucp.FeatureRMA | ucp.FeatureAMO64 | ucp.FeatureWakeup
	ctx, err := ucp.NewContext(ucp.ContextParams{Features: features}, cfg)
	if err != nil {
		t.Fatal(err)
	}
	w, err := ctx.NewWorker(ucp.WorkerParams{ThreadMode: mode, Wait: ucp.WaitCPU})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, close := range []func() error{w.Close, ctx.Close} {
			if err := close(); err != nil {
				t.Error(err)
			}
		}
	})
	addr, err := w.Address(0)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := w.NewEndpoint(ucp.EndpointParams{Address: addr})
	if err != nil {
		t.Fatal(err)
	}
	return ctx, w, ep
}

func inModes(t *testing.T, test func(t *testing.T, mode ucs.ThreadMode)) {
	for _, mode := range []ucs.ThreadMode{ucs.ThreadModeSingle, ucs.ThreadModeMulti} {
		t.Run(mode.String(), func(t *testing.T) { test(t, mode) })
	}
}

// TestAlone checks messages of all protocols, memory access and atomic operations in both thread
// modes.
func TestAlone(t *testing.T) {
	inModes(t, func(t *testing.T, mode ucs.ThreadMode) {
		ctx, w, ep := alone(t, mode)
		for _, n := range []int{0, 8, 8 << 10, 1 << 20} {
			out, in := make([]byte, n), make([]byte, n)
			for i := range out {
				out[i] = byte(i*7 + n)
			}
			send, err := ep.TagSend(5, out, nil)
			if err != nil {
				t.Fatal(err)
			}
			info, err := w.TagRecvWait(t.Context(), 5, ucp.FullMask, in)
			if err != nil || info.Length != n || string(in) != string(out) {
				t.Errorf("%d bytes: %+v, %v", n, info, err)
			}
			if err := send.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		mem, err := ctx.Alloc(4096, ucp.ProtAll)
		if err != nil {
			t.Fatal(err)
		}
		defer mem.Close()
		packed, err := mem.PackRkey()
		if err != nil {
			t.Fatal(err)
		}
		key, err := ep.UnpackRkey(packed)
		if err != nil {
			t.Fatal(err)
		}
		defer key.Close()
		addr := mem.Attr().Address
		for range 3 {
			if _, err := ucp.FetchAddWait[uint64](t.Context(), ep, addr+8, key, 2); err != nil {
				t.Fatal(err)
			}
		}
		if b := mem.Bytes(); b[8] != 6 {
			t.Errorf("the counter is % x", b[8:16])
		}
	})
}

// TestAloneAsleep checks that Signal wakes a goroutine that waits for an event, and that a
// goroutine that waits for a message which does not arrive sleeps until its context ends.
func TestAloneAsleep(t *testing.T) {
	inModes(t, func(t *testing.T, mode ucs.ThreadMode) {
		_, w, _ := alone(t, mode)
		for range 20 {
			go w.Signal()
			if err := w.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		if _, err := w.TagRecvWait(ctx, 5, ucp.FullMask, nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a message that does not come: %v", err)
		}
	})
}

// TestWaitOfCanceled: a wait for a receive that was canceled before gives the error of the receive,
// whether its own context has ended or not.
func TestWaitOfCanceled(t *testing.T) {
	inModes(t, func(t *testing.T, mode ucs.ThreadMode) {
		_, w, _ := alone(t, mode)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, ctx := range []context.Context{t.Context(), ended} {
			r, err := w.TagRecv(5, ucp.FullMask, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			w.Cancel(r)
			if err := r.Wait(ctx); err != ucs.ErrCanceled {
				t.Errorf("a wait for a canceled receive, with a context that ends with %v: %v", ctx.Err(), err)
			}
			r.Free()
		}
	})
}
