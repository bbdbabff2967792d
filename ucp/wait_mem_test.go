package ucp_test

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/word"
	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// waitMemWorker is a worker with an endpoint to itself.
func waitMemWorker(t *testing.T, mode ucs.ThreadMode, settings ...setting) (*ucp.Worker, *ucp.Endpoint) {
	t.Helper()
	ctx := newContext(t, ucp.ContextParams{Features: ucp.FeatureTag | ucp.FeatureWakeup}, settings...)
	w, err := ctx.NewWorker(ucp.WorkerParams{ThreadMode: mode})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	addr, err := w.Address(0)
	if err != nil {
		t.Fatal(err)
	}
	ep, err := w.NewEndpoint(ucp.EndpointParams{Address: addr})
	if err != nil {
		t.Fatal(err)
	}
	return w, ep
}

var threadModes = []ucs.ThreadMode{ucs.ThreadModeSingle, ucs.ThreadModeSerialized, ucs.ThreadModeMulti}

// TestWaitMemStore: a store of another goroutine ends the wait, however it spends its
// time, and one that has happened before does at once.
func TestWaitMemStore(t *testing.T) {
	for _, mode := range threadModes {
		for _, policy := range []string{"adaptive", "latency", "cpu"} {
			w, _ := waitMemWorker(t, mode, setting{"WAIT", policy})
			for _, n := range []int{4, 8} {
				mem := make([]byte, 8)[:n]
				for old := range uint64(20) {
					go func() {
						if n == 4 {
							word.Swap32(mem, uint32(old)+1)
						} else {
							word.Swap64(mem, old+1)
						}
					}()
					if err := w.WaitMem(context.Background(), mem, old); err != nil {
						t.Fatalf("%v, %s, %d bytes: %v", mode, policy, n, err)
					}
				}
				done, cancel := context.WithCancel(context.Background())
				cancel()
				if err := w.WaitMem(done, mem, 0); err != nil {
					t.Errorf("%v: a change before the wait: %v", mode, err)
				}
			}
		}
	}
}

// TestWaitMemProgresses: what callbacks and messages write is seen, as the wait progresses
// the worker.
func TestWaitMemProgresses(t *testing.T) {
	for _, mode := range threadModes {
		w, ep := waitMemWorker(t, mode)
		buf, mem := make([]byte, 8), make([]byte, 8)
		if _, err := w.TagRecv(1, ucp.FullMask, buf, &ucp.RequestParams{
			OnTagRecv: func(*ucp.Request, error, ucp.TagRecvInfo, any) {
				if err := w.WaitMem(context.Background(), mem, 0); !errors.Is(err, ucs.ErrInvalidParam) && !errors.Is(err, ucs.ErrBusy) {
					t.Errorf("%v: inside a callback: %v", mode, err)
				}
				copy(mem, buf)
			},
		}); err != nil {
			t.Fatal(err)
		}
		if _, err := ep.TagSend(1, binary.NativeEndian.AppendUint64(nil, 7), nil); err != nil {
			t.Fatal(err)
		}
		if err := w.WaitMem(context.Background(), mem, 0); err != nil || mem[0]+mem[7] != 7 {
			t.Errorf("%v: %v, %x", mode, err, mem)
		}
	}
}

// TestWaitMemEnds: a wait ends with its context, and with the worker.
func TestWaitMemEnds(t *testing.T) {
	for _, mode := range threadModes {
		w, _ := waitMemWorker(t, mode)
		mem := make([]byte, 8)
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
		if err := w.WaitMem(ctx, mem, 0); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v: %v after the context's end", mode, err)
		}
		cancel()
		if mode == ucs.ThreadModeMulti {
			waiting := make(chan error)
			go func() { waiting <- w.WaitMem(context.Background(), mem, 0) }()
			w.Close()
			if err := <-waiting; !errors.Is(err, ucs.ErrCanceled) && !errors.Is(err, ucs.ErrInvalidParam) {
				t.Errorf("%v: %v after the worker's end", mode, err)
			}
		}
		w.Close()
		if err := w.WaitMem(context.Background(), mem, 0); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%v: %v on a closed worker", mode, err)
		}
	}
}

// TestWaitMemRefuses: only a word can be waited for.
func TestWaitMemRefuses(t *testing.T) {
	w, _ := waitMemWorker(t, ucs.ThreadModeSingle)
	mem := make([]byte, 16)
	for what, m := range map[string][]byte{"nothing": nil, "two bytes": mem[:2], "sixteen": mem, "half-way 8": mem[4:12], "odd 4": mem[1:5]} {
		if err := w.WaitMem(context.Background(), m, 1); !errors.Is(err, ucs.ErrInvalidParam) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := w.WaitMem(context.Background(), mem[4:8], 1); err != nil {
		t.Errorf("4 bytes at a multiple of 4: %v", err)
	}
}
