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

// Wait progresses the worker until the operation has finished, frees the request
// and returns the result. When ctx ends first the operation is canceled if it
// can be: the error then matches ucs.ErrCanceled and the context's error, and
// the request is freed. If it cannot, Wait returns the context's error alone:
// the request is still in flight, its buffer stays the library's until Done, and
// Wait may be called again. A request of the user's is not freed. Inside a
// callback, or while another goroutine waits on the worker, Wait is refused and
// leaves the request as it is.
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
	if err := w.progressUntil(ctx, r); err != nil {
		if err != ctx.Err() {
			return err
		}
		w.Cancel(r)
		if !r.Done() {
			return ctx.Err()
		}
		if r.err == ucs.ErrCanceled {
			r.Free()
			return fmt.Errorf("ucp: %w: %w", ucs.ErrCanceled, context.Cause(ctx))
		}
	}
	err := r.err
	r.Free()
	return err
}

// Run progresses the worker, sleeping while there is nothing to do, until ctx
// ends; it returns the context's error.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.enterWait(); err != nil {
		return err
	}
	defer w.leaveWait()
	return w.progressUntil(ctx, nil)
}

// progressUntil progresses until r is done or ctx ends: busily for a while, then
// asleep between events. The caller has entered the wait.
func (w *Worker) progressUntil(ctx context.Context, r *Request) error {
	if r != nil && r.Done() {
		return nil
	}
	for round, idle := 1, 0; ; round++ {
		if w.closed {
			return ucs.ErrInvalidParam
		}
		n := w.Progress()
		if r != nil && r.Done() {
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

// Send sends a tagged message and waits until buf may be reused. If ctx ends
// before that it returns its error and buf stays the library's until the
// endpoint is closed.
func (ep *Endpoint) Send(ctx context.Context, tag Tag, buf []byte) error {
	// Before anything is started: an error must not leave a message behind.
	if err := ep.w.enterWait(); err != nil {
		return err
	}
	defer ep.w.leaveWait()
	req, err := ep.TagSend(tag, buf, nil)
	if err != nil || req == nil {
		return err
	}
	return req.awaitUnseen(ctx)
}

// Recv receives a tagged message and waits for it. If ctx ends before a message
// has matched, nothing is received and buf is the caller's again: the error
// matches ucs.ErrCanceled. If a message is arriving by then, the error is the
// context's alone and buf stays the library's until the worker is closed.
func (w *Worker) Recv(ctx context.Context, tag, mask Tag, buf []byte) (TagRecvInfo, error) {
	if err := w.enterWait(); err != nil {
		return TagRecvInfo{}, err
	}
	defer w.leaveWait()
	var info TagRecvInfo
	p := RequestParams{TagInfo: &info}
	req, err := w.TagRecv(tag, mask, buf, &p)
	if err != nil || req == nil {
		return info, err
	}
	if err := w.progressUntil(ctx, req); err == nil {
		info, err = req.TagRecvInfo()
		req.Free()
		return info, err
	}
	return TagRecvInfo{}, req.awaitUnseen(ctx)
}

// awaitUnseen is await for a request that the caller will not see.
func (r *Request) awaitUnseen(ctx context.Context) error {
	err := r.await(ctx)
	if err != nil && err == ctx.Err() {
		r.Free()
	}
	return err
}

// Close flushes the endpoint and releases it. If ctx ends before the flush is
// over, an endpoint in ErrModePeer is released at once and its operations end
// with ucs.ErrCanceled; one in ErrModeNone goes on closing in the background of
// the worker's progress. Either way the context's error is returned. Where
// waiting is refused, inside a callback for one, nothing is started: CloseAsync
// serves there.
func (ep *Endpoint) Close(ctx context.Context) error {
	if err := ep.w.enterWait(); err != nil {
		return err
	}
	defer ep.w.leaveWait()
	req, err := ep.CloseAsync(nil)
	if err != nil || req == nil {
		return err
	}
	if err = ep.w.progressUntil(ctx, req); err == nil {
		err = req.Err()
	} else if ctx.Err() != nil && ep.errMode != ErrModeNone {
		ep.destroy(ucs.ErrCanceled)
	}
	req.Free()
	return err
}
