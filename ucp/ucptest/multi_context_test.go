//go:build linux

package ucptest

import (
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// TestMultiContext: many goroutines create and close all objects of a context, until the context
// itself is closed.
func TestMultiContext(t *testing.T) {
	for _, name := range []string{"self", "posix", "tcp"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, byName(t, name).shared())
			for range 3 {
				ctx, err := ucp.NewContext(ucp.ContextParams{Features: oneSided}, r.config())
				if err != nil {
					t.Fatal(err)
				}
				var g group
				for range 4 {
					g.Go(func() {
						for {
							err := useContext(ctx)
							if errors.Is(err, ucs.ErrInvalidParam) {
								return // the context is closed
							}
							if err != nil {
								t.Error(err)
								return
							}
						}
					})
				}
				for closed := 0; closed == 0; {
					switch err := ctx.Close(); {
					case err == nil:
						closed++
					case !errors.Is(err, ucs.ErrBusy):
						t.Fatal(err)
					}
					runtime.Gosched()
				}
				g.Wait()
				if err := ctx.Close(); err != nil {
					t.Errorf("a second close: %v", err)
				}
			}
		})
	}
}

// useContext creates a worker and memory, and closes them.
func useContext(ctx *ucp.Context) error {
	ctx.Attr()
	if err := ctx.WriteInfo(io.Discard); err != nil {
		return err
	}
	w, err := ctx.NewWorker(ucp.WorkerParams{ThreadMode: ucs.ThreadModeMulti})
	if err != nil {
		return err
	}
	own, err := ctx.Register(make([]byte, 5000), 0)
	if err != nil {
		return errors.Join(err, w.Close())
	}
	m, err := ctx.Alloc(5000, 0)
	if err != nil {
		return errors.Join(err, own.Close(), w.Close())
	}
	return errors.Join(useMemory(w, own), useMemory(w, m), m.Close(), own.Close(), w.Close())
}

// useMemory accesses memory through a key.
func useMemory(w *ucp.Worker, m *ucp.Memory) error {
	packed, err := m.PackRkey()
	if err != nil {
		return err
	}
	addr, err := w.Address(0)
	if err != nil {
		return err
	}
	ep, err := w.NewEndpoint(ucp.EndpointParams{Address: addr})
	if err != nil {
		return err
	}
	key, err := ep.UnpackRkey(packed)
	if err != nil {
		return err
	}
	req, err := ep.Get(make([]byte, 100), m.Attr().Address, key, nil)
	if err != nil {
		return err
	}
	for !req.Done() {
		w.Progress()
	}
	req.Free()
	return errors.Join(key.Close(), ep.Close())
}
