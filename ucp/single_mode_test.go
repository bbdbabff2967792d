package ucp_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// What every system has: a worker that reaches itself.

// alone is a worker in a mode with an endpoint to itself.
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

// TestAlone: messages of all protocols, memory and atomics.
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

// TestAloneAsleep: a Signal wakes who waits for an event; and who waits for a message that
// does not come sleeps until his context ends.
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
