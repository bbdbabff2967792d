package ucp

import (
	"context"
	"fmt"
	"runtime"

	"github.com/ucx-go/ucx/ucs"
)

// How long a wait burns CPU before it sleeps: rounds of progress, then rounds
// that let other goroutines run in between.
const (
	spinRounds  = 512
	yieldRounds = 32
)

// Wait progresses the worker until the operation has finished and returns the
// result. What the request tells can be read until Free, which is optional, and
// after which the object serves another operation. When ctx ends first a receive
// that no message has matched is canceled: the error then matches ucs.ErrCanceled and
// the context's error. Anything else goes on, and Wait returns the context's error alone: the
// request is still in flight, its buffer stays the library's until Done, and Wait
// may be called again. Inside a callback, or while another goroutine waits on the
// worker, Wait is refused and leaves the request as it is.
func (r *Request) Wait(ctx context.Context) error {
	if r == nil {
		return nil
	}
	w := r.w
	if w == nil {
		return ucs.ErrInvalidParam // the user's object, in no operation
	}
	if err := w.enterWait(); err != nil {
		return err
	}
	defer w.leaveWait()
	r.checkLive()
	return r.await(ctx)
}

// await is Wait where the worker is the caller's to wait on.
func (r *Request) await(ctx context.Context) error {
	w := r.w
	if err := w.progressUntil(ctx, r, nil); err != nil {
		if err != ctx.Err() {
			return err
		}
		w.cancelPosted(r)
		if !r.Done() {
			return ctx.Err()
		}
		if r.err == ucs.ErrCanceled {
			return canceledBy(ctx)
		}
	}
	return r.err
}

// canceledBy is the error of a receive whose context has ended.
func canceledBy(ctx context.Context) error {
	return fmt.Errorf("ucp: %w: %w", ucs.ErrCanceled, context.Cause(ctx))
}

// Run progresses the worker, sleeping while there is nothing to do, until ctx
// ends; it returns the context's error.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.enterWait(); err != nil {
		return err
	}
	defer w.leaveWait()
	return w.progressUntil(ctx, nil, nil)
}

// progressUntil progresses until r is done, over says so or ctx ends: busily for a
// while, then asleep between events. The caller has entered the wait.
func (w *Worker) progressUntil(ctx context.Context, r *Request, over func() bool) error {
	if r != nil && r.Done() {
		return nil
	}
	w.enter() // asleep too: nobody else may call it
	err := w.progressLoop(ctx, r, over)
	w.exit()
	return err
}

func (w *Worker) progressLoop(ctx context.Context, r *Request, over func() bool) error {
	for round, idle := 1, 0; ; round++ {
		if w.closed {
			return ucs.ErrInvalidParam
		}
		w.gate &^= gateInside
		n := w.Progress()
		w.gate |= gateInside
		if r != nil && r.Done() || over != nil && over() {
			return nil
		}
		if n > 0 {
			idle = 0
		}
		idle++
		if round%64 == 0 || n > 0 && r == nil {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		switch {
		case idle < spinRounds:
		case idle < spinRounds+yieldRounds:
			runtime.Gosched()
		default:
			err := w.arm()
			if err == nil {
				err = w.park(ctx)
			}
			if err != nil && err != ucs.ErrBusy {
				return err
			}
			idle = 0
		}
	}
}
