//go:build linux

package ucptest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/ucx-go/ucx/ucp"
	"github.com/ucx-go/ucx/ucs"
)

// TestMultiCallbacks checks that callbacks run one at a time, may call functions that do not wait,
// and may panic. The panic is raised on the goroutine that runs the callback, and all other
// goroutines continue.
func TestMultiCallbacks(t *testing.T) {
	for _, name := range []string{"self", "posix", "tcp"} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, byName(t, name).shared())
			r.log.Allow("another panic in a callback")
			a, b := r.pair()
			c := &callers{rig: r, a: a, b: b, ep: a.connect(b)}
			ctx, cancel := context.WithCancel(context.Background())
			var driving, working group
			for _, s := range r.sides {
				for range 2 {
					driving.Go(func() { c.drive(ctx, func() { s.Run(ctx) }) })
				}
				driving.Go(func() {
					c.drive(ctx, func() {
						s.Progress()
						runtime.Gosched()
					})
				})
			}
			const workers, rounds = 16, 30
			for n := range workers {
				working.Go(func() {
					for round := range rounds {
						c.exchange(ucp.Tag(n), round%3 == 0)
					}
				})
			}
			working.Wait()
			cancel()
			driving.Wait()
			b.Stats() // runs after the last callback
			if c.called != workers*rounds {
				t.Errorf("%d callbacks, want %d", c.called, workers*rounds)
			}
			if n := c.raised.Load(); n == 0 || n > workers*rounds/3 {
				t.Errorf("%d panics were raised, of %d", n, workers*rounds/3)
			}
			r.echoes(c.ep, b)
		})
	}
}

type callers struct {
	*rig
	a, b   *side
	ep     *ucp.Endpoint
	called int          // changed by callbacks only
	raised atomic.Int64 // number of panics
}

// guarded makes a call that may raise the panic of a callback.
func (c *callers) guarded(call func()) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *ucp.CallbackPanic:
			if c.raised.Add(1); !errors.Is(v, errPanic) {
				c.Errorf("panicked with %v", v)
			}
		default:
			c.Errorf("panicked with %v", v)
		}
	}()
	call()
}

func (c *callers) drive(ctx context.Context, call func()) {
	for ctx.Err() == nil {
		c.guarded(call)
	}
}

// exchange sends a message whose callback may panic.
func (c *callers) exchange(tag ucp.Tag, fails bool) {
	done := make(chan struct{})
	c.guarded(func() {
		c.b.TagRecv(tag, ucp.FullMask, nil, &ucp.RequestParams{OnTagRecv: func(req *ucp.Request, err error, _ ucp.TagRecvInfo, _ any) {
			defer close(done)
			c.called++
			if err == nil {
				err = c.inside()
			}
			if err != nil {
				c.Error(err)
			}
			req.Free()
			if fails {
				panic(errPanic)
			}
		}})
	})
	c.guarded(func() { c.ep.TagSend(tag, nil, nil) })
	<-done
}

// inside makes calls that a callback may make, and checks that others are refused.
func (c *callers) inside() error {
	c.b.Stats()
	if n := c.b.Progress(); n != 0 {
		return fmt.Errorf("progress in a callback handled %d events", n)
	}
	if _, err := c.b.TagRecvWait(context.Background(), emptyStream, ucp.FullMask, nil); !errors.Is(err, ucs.ErrInvalidParam) {
		return fmt.Errorf("a wait in a callback: %w", err)
	}
	if err := c.b.Worker.Close(); !errors.Is(err, ucs.ErrBusy) {
		return fmt.Errorf("closing the worker in a callback: %w", err)
	}
	req, err := c.b.TagRecv(emptyStream, ucp.FullMask, nil, nil)
	if err != nil {
		return err
	}
	c.b.Cancel(req)
	if err := req.Err(); !errors.Is(err, ucs.ErrCanceled) {
		return fmt.Errorf("a receive that was canceled in a callback: %w", err)
	}
	req.Free()
	return nil
}
