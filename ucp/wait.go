package ucp

import (
	"context"

	"github.com/ucx-go/ucx/ucp/internal/backoff"
	"github.com/ucx-go/ucx/ucs"
)

// Wait progresses the worker until the operation has finished and returns its result. The
// results of the request can be read until Free, which is optional.
//
// If ctx ends first, a receive that no message has matched, and a stream receive, is
// canceled: the error then matches ucs.ErrCanceled and the context's error. Any other
// operation goes on, and the error matches the context's alone; after a deadline it says so
// if the peer has never answered the endpoint. The request is then still in flight, its
// buffer stays the library's until Done, and Wait may be called again.
//
// Inside a callback, or while another goroutine waits on the worker, Wait is refused and
// leaves the request as it is. In ThreadModeMulti any number of goroutines may wait, even
// for the same request.
func (r *Request) Wait(ctx context.Context) error {
	if r == nil {
		return nil
	}
	w := r.w
	if w == nil {
		return ucs.ErrInvalidParam // the application's object, in no operation
	}
	r.checkLive()
	c, err := w.waitingCall(startedBefore)
	if err != nil {
		return err
	}
	c.r, c.given = r, true
	if err = c.wait(ctx); err == errFreed {
		panic(usedAfterFree)
	}
	return err
}

// startedBefore is the start function of a call that waits for a request in flight.
func startedBefore(c *call) (*Request, error) { return c.r, nil }

// Run progresses the worker, sleeping while there is nothing to do, until ctx ends, and
// returns the context's error. In ThreadModeMulti other goroutines may call the worker
// meanwhile; if one closes the worker Run returns ucs.ErrCanceled.
func (w *Worker) Run(ctx context.Context) error {
	if w.missing() {
		return errMissing("Worker.Run", w == nil)
	}
	c, err := w.waitingCall(nil)
	if err != nil {
		return err
	}
	return c.wait(ctx)
}

// waitingCall returns a call that may wait. It fails inside a callback and, in modes other than
// multi, while another goroutine waits on the worker.
func (w *Worker) waitingCall(start func(*call) (*Request, error)) (*call, error) {
	if w.owner.multi {
		if w.owner.engine.Nested() {
			return nil, errWaitInside
		}
	} else if err := w.wake.enterWait(); err != nil {
		return nil, err
	}
	return w.newCall(start), nil
}

// wait carries out the call, waits for the end of its operation, and drops the call. If ctx ends
// first, an operation that can be canceled is canceled. Of the others, an operation that writes to
// the caller's memory is waited for (outlive), and any other goes on after the call.
func (c *call) wait(ctx context.Context) error {
	lost, err := c.await(ctx)
	if !lost {
		c.drop()
	}
	return err
}

// await is wait without dropping the call, from which the caller takes the result. lost reports
// that the operation goes on with the call: then the caller must not drop it.
func (c *call) await(ctx context.Context) (lost bool, err error) {
	if c.w.owner.multi {
		return c.waitShared(ctx)
	}
	return c.waitAlone(ctx)
}

// waitAlone is await in modes other than multi, where no other goroutine may use the worker
// meanwhile.
func (c *call) waitAlone(ctx context.Context) (lost bool, err error) {
	w := c.w
	returns := false
	defer func() {
		if !returns && !w.abandoned() {
			w.owner.gate |= gateInside
			c.endAbandoned()
			w.owner.gate &^= gateInside
		}
		w.wake.leaveWait()
	}()
	lost, err = c.waitEntered(ctx)
	returns = true
	return lost, err
}

// waitEntered is waitAlone for a caller that has entered the wait.
func (c *call) waitEntered(ctx context.Context) (lost bool, err error) {
	w := c.w
	if c.start != nil {
		w.owner.acquire()
		c.r, err = c.begin()
		w.owner.release()
		if c.r == nil && (!c.awaitsEndpoints || err != nil) {
			return false, err
		}
	}
	r := c.r
	reason := w.progressUntil(ctx, c)
	w.replies.caller = nil
	if c.early {
		if c.earlyErr != nil { // otherwise detachCaller has freed the request
			r.free()
		}
		return c.earlyErr != nil, c.earlyErr
	}
	if r == nil {
		return false, reason
	}
	said := reason
	if !r.Done() {
		said = c.waitedFor(reason)
		err = c.giveUpAlone(ctx, reason)
	}
	if r.Done() {
		c.info, err = r.info, canceled(ctx, reason, r.err)
	}
	err = instead(err, reason, said)
	if c.given {
		return false, err
	}
	lost = !r.Done()
	r.free()
	return lost, err
}

// giveUpAlone gives up waiting for a reason, mostly that ctx has ended: it cancels the operation,
// or waits for its end where outlive requires that. It returns the error of an operation that goes
// on.
func (c *call) giveUpAlone(ctx context.Context, reason error) error {
	w := c.w
	w.owner.acquire()
	c.cancelFor(ctx, reason)
	err := reason
	if !c.r.Done() {
		c.bound, err = c.outlive(reason)
	}
	w.owner.release()
	if c.bound {
		err = w.progressUntil(context.Background(), c)
	}
	return err
}

// progressUntil progresses the worker until the call is over or ctx ends. It spins for a while,
// then sleeps between events. The caller has entered the wait.
func (w *Worker) progressUntil(ctx context.Context, c *call) error {
	if c.isOver() {
		return nil
	}
	w.owner.acquire() // held during sleeps too: no other goroutine may call the worker
	err := w.progressLoop(ctx, c)
	w.owner.release()
	return err
}

// isOver reports whether what the call waits for has happened. It is for modes other than multi,
// where the call is not told.
func (c *call) isOver() bool {
	return c.r != nil && (c.early || c.r.Done()) || c.awaitsEndpoints && c.endpointsGone()
}

func (w *Worker) progressLoop(ctx context.Context, c *call) error {
	for round := 1; ; round++ {
		if w.closed {
			return w.closedFor("a call that waits")
		}
		w.owner.gate &^= gateInside
		n := w.Progress()
		w.owner.gate |= gateInside
		if c.unasked && !c.r.Done() {
			c.mayGo()
		}
		step := w.backoff.Next(n)
		if c.isOver() {
			w.backoff.End()
			w.uctw.Push() // sends collected replies, for which the peer may be waiting
			return nil
		}
		if round%64 == 0 || n > 0 && c.r == nil {
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		if step != backoff.Sleep {
			step.Take()
			continue
		}
		err := w.wake.arm()
		if err == nil {
			err = w.wake.park(ctx)
		}
		switch {
		case err == nil:
		case awake(err) || c.bound:
			backoff.Rest.Take()
		default:
			return err
		}
	}
}

// waitEvent is Worker.Wait in thread mode multi.
func (w *Worker) waitEvent(ctx context.Context) error {
	c, err := w.waitingCall(nil)
	if err != nil {
		return err
	}
	c.event = true
	return c.wait(ctx)
}

// Wait sleeps until there is something to progress, or until ctx ends and then returns its
// error. It arms the worker by itself, returns at once if there is already something to
// progress, and does not progress the worker. In ThreadModeMulti it also returns if another
// goroutine has progressed something since the last Wait or Arm: an operation that was not
// done when the caller looked may be done now. Only one goroutine is notified of that, so
// only one goroutine should sleep in Wait or Arm; any number may wait in Request.Wait and
// the other calls that wait for an operation.
func (w *Worker) Wait(ctx context.Context) error {
	if w.missing() {
		return errMissing("Worker.Wait", w == nil)
	}
	if w.owner.multi {
		return w.waitEvent(ctx)
	}
	if err := w.wake.needWakeup(); err != nil {
		return err
	}
	if err := w.wake.enterWait(); err != nil {
		return err
	}
	defer w.wake.leaveWait()
	w.owner.acquire()
	err := w.wake.arm()
	if err == nil {
		if err = w.wake.park(ctx); err == nil {
			w.wake.heard() // consumes the Signal that may have ended this wait
		}
	} else if err == ucs.ErrBusy {
		err = nil
	}
	w.owner.release()
	return err
}
