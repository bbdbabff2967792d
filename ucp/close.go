package ucp

import (
	"context"
	"fmt"
	"io"

	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucs"
)

// There are two ways to close: Close releases at once, whereas Shutdown first waits until the
// operations that were started before are complete. A Close after a canceled Shutdown also ends the
// close that the Shutdown has started.

var (
	_ io.Closer = (*Context)(nil)
	_ io.Closer = (*Worker)(nil)
	_ io.Closer = (*Endpoint)(nil)
	_ io.Closer = (*Memory)(nil)
	_ io.Closer = (*Rkey)(nil)
)

// Close releases the endpoint at once, without the peer: outstanding operations end with
// ucs.ErrCanceled, and callbacks run. Messages that were done for the caller have been sent;
// whether puts that were not flushed have taken effect is unknown. The peer's endpoint fails. An
// endpoint in ErrModeNone should therefore be shut down instead, unless its peer ends as well;
// CloseForce in ErrModePeer has no such restriction. While another goroutine uses the worker, or
// waits on it, Close is refused with ucs.ErrBusy, except in ThreadModeMulti. A second Close does
// nothing.
func (ep *Endpoint) Close() error {
	if ep.missing() {
		return errMissing("Endpoint.Close", ep == nil)
	}
	if err := ep.w.owner.acquireChecked(); err != nil {
		return err
	}
	ep.w.ends.destroy(ep, ucs.ErrCanceled)
	ep.w.owner.release()
	return nil
}

// Shutdown closes the endpoint as CloseAsync does without CloseForce, and waits for the
// operations that were started before and for the close. The peer may need this process
// afterwards, for example for a flush of its own: progress the worker until the peer is
// done, by a call that waits or by WorkerParams.Background.
//
// If ctx ends first, operations that the peer has not answered are canceled, such as
// messages that it has not matched; the error gives their number and matches the context's.
// Everything else is still sent, and the close ends in the background, with the worker's
// progress. Where waiting is refused, for example inside a callback, Shutdown starts
// nothing: use CloseAsync there.
func (ep *Endpoint) Shutdown(ctx context.Context) error {
	if ep.missing() {
		return errMissing("Endpoint.Shutdown", ep == nil)
	}
	err := ep.w.ends.endWith(ep, ctx, startClose)
	if err == nil || ctx.Err() == nil {
		return err
	}
	ep.w.owner.acquireRead()
	defer ep.w.owner.releaseRead()
	left := ep.w.ends.canceledOperations(ep)
	if left == 0 {
		return err
	}
	return ep.w.ends.withEndpointName(ep, fmt.Errorf("%d operations that the peer has not answered are canceled: %w", left, ctx.Err()))
}

// Shutdown shuts down all endpoints of the worker, including those that peers have opened,
// and closes the worker. It progresses the worker meanwhile; the operations of a peer that
// has not finished by then fail. Posted receives end with ucs.ErrCanceled. If ctx ends
// first, operations that peers have not answered are canceled, the error gives their number
// and matches the context's, and the worker is still open.
func (w *Worker) Shutdown(ctx context.Context) error {
	if w.missing() {
		return errMissing("Worker.Shutdown", w == nil)
	}
	if w.owner.isClosed() {
		return nil
	}
	c, err := w.waitingCall(startShutdown)
	if err != nil {
		return err
	}
	c.awaitsEndpoints = true
	if err := w.awaitShutdown(ctx, c); err != nil {
		return err
	}
	return w.Close()
}

func (w *Worker) awaitShutdown(ctx context.Context, c *call) error {
	defer func() { // deferred, because a callback may panic or end the goroutine
		w.owner.resume()
		w.shuttingDown--
		w.owner.release()
	}()
	err := c.wait(ctx)
	if err == nil || ctx.Err() == nil {
		return err
	}
	return w.stopWaiting(ctx)
}

// stopWaiting cancels the operations that the endpoints' closes wait for. It returns an error that
// gives the numbers of endpoints left and of operations canceled.
func (w *Worker) stopWaiting(ctx context.Context) error {
	w.owner.acquire()
	endpoints, operations := w.endpoints.Len(), int32(0)
	w.endpoints.Each(func(ep *Endpoint) {
		ep.w.ends.giveUp(ep)
		operations += ep.w.ends.canceledOperations(ep)
	})
	w.owner.release()
	return fmt.Errorf("ucp: worker %s: %d endpoints are left, %d operations that their peers have not answered are canceled: %w", w.name, endpoints, operations, ctx.Err())
}

// startShutdown starts the close of all endpoints, for Worker.Shutdown. Until Shutdown's wait has
// ended, peers cannot open new endpoints; otherwise the wait might not end.
func startShutdown(c *call) (*Request, error) {
	w := c.w
	w.shuttingDown++
	if !w.closed {
		w.endpoints.Each(func(ep *Endpoint) {
			switch {
			case ep.err != nil:
				ep.w.ends.destroy(ep, ep.err)
			case ep.life.Closing():
				ep.report(life.ShutdownClose, nil)
			default:
				if req, err := ep.w.ends.startClosing(ep, life.ShutdownClose, nil); err == nil {
					req.free() // the close continues, and its result is not needed
				}
			}
		})
	}
	return nil, nil
}
