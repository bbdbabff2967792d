package ucp

import (
	"context"
	"fmt"
	"io"

	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
)

// Two ways to end: Close releases at once, Shutdown lets what was started before
// leave first. Close after a Shutdown that was given up ends that too.

var (
	_ io.Closer = (*Context)(nil)
	_ io.Closer = (*Worker)(nil)
	_ io.Closer = (*Endpoint)(nil)
	_ io.Closer = (*Memory)(nil)
	_ io.Closer = (*Rkey)(nil)
)

// Close releases the endpoint at once, without the peer: what is outstanding ends
// with ucs.ErrCanceled, and callbacks run. Messages that are done for the caller
// have left; of puts that were not flushed it is unknown whether they have taken
// effect. The peer sees its end fail, so unlike CloseForce in ErrModePeer an
// endpoint in ErrModeNone should be shut down, unless its peer ends as well. While
// another goroutine uses the worker, or waits on it, Close is refused with
// ucs.ErrBusy, except in ThreadModeMulti. A second Close does nothing.
func (ep *Endpoint) Close() error {
	if ep.missing() {
		return errMissing("Endpoint.Close", ep == nil)
	}
	if err := ep.w.tryEnter(); err != nil {
		return err
	}
	ep.destroy(ucs.ErrCanceled)
	ep.w.exit()
	return nil
}

// Shutdown closes the endpoint as CloseAsync does, without CloseForce, and waits for the
// end of that: of the operations that were started before, and of the close. The peer may
// still have to hear from this process, as for its own flush: the worker has to be
// progressed until the peer is done, by a call that waits or by WorkerParams.Background. If
// ctx ends first those are canceled that the peer has not answered, such as messages that it
// has not matched; the error says how many and matches the context's. The rest leaves, and
// the close ends, in the background of the worker's progress. Where waiting is refused, inside a callback
// for one, nothing is started: CloseAsync serves there.
func (ep *Endpoint) Shutdown(ctx context.Context) error {
	if ep.missing() {
		return errMissing("Endpoint.Shutdown", ep == nil)
	}
	err := ep.endWith(ctx, startClose)
	if err == nil || ctx.Err() == nil {
		return err
	}
	ep.w.look()
	defer ep.w.unlook()
	left := ep.leftBehind()
	if left == 0 {
		return err
	}
	return ep.nameIn(fmt.Errorf("%d operations that the peer has not answered are canceled: %w", left, ctx.Err()))
}

// Shutdown shuts down all endpoints of the worker, those that peers have opened
// too, and closes the worker. It progresses the worker meanwhile; a peer that has not
// finished then sees its operations fail. Posted receives end with ucs.ErrCanceled. If ctx ends
// first the operations that peers have not answered are canceled, the error says how many
// and matches the context's, and the worker is still open.
func (w *Worker) Shutdown(ctx context.Context) error {
	if w.missing() {
		return errMissing("Worker.Shutdown", w == nil)
	}
	if w.isClosed() {
		return nil
	}
	c, err := w.waitingCall(startLeaving)
	if err != nil {
		return err
	}
	c.leaves = true
	if err := w.leave(ctx, c); err != nil {
		return err
	}
	return w.Close()
}

func (w *Worker) leave(ctx context.Context, c *call) error {
	defer func() { // a callback may panic, or end the goroutine
		if w.multi {
			w.awaitTurn()
		}
		w.leaving--
		w.unlook()
	}()
	err := c.wait(ctx)
	if err == nil || ctx.Err() == nil {
		return err
	}
	return w.stopWaiting(ctx)
}

// stopWaiting cancels what the closes of the endpoints wait for, and says how much that is.
func (w *Worker) stopWaiting(ctx context.Context) error {
	w.enter()
	endpoints, operations := w.endpoints.Len(), int32(0)
	w.endpoints.Each(func(ep *Endpoint) {
		ep.giveUp()
		operations += ep.leftBehind()
	})
	w.exit()
	return fmt.Errorf("ucp: worker %s: %d endpoints are left, %d operations that their peers have not answered are canceled: %w", w.name, endpoints, operations, ctx.Err())
}

// startLeaving closes all endpoints. Peers open no new ones until the wait has ended, or
// it might not.
func startLeaving(c *call) (*Request, error) {
	w := c.w
	w.leaving++
	if !w.closed {
		w.endpoints.Each(func(ep *Endpoint) {
			switch {
			case ep.err != nil:
				ep.destroy(ep.err)
			case ep.life.Closing():
				ep.report(life.Leave, nil)
			default:
				if req, err := ep.startClosing(life.Leave, nil); err == nil {
					req.free() // goes on, and nobody needs to know how it ends
				}
			}
		})
	}
	return nil, nil
}
