package ucp

import (
	"context"
	"slices"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/ucp/internal/backoff"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// The loop of all calls that wait. One of them, the leader, progresses the worker and sleeps for
// all. In thread mode multi the others park until what they wait for has happened, or until one of
// them is to lead (internal/engine). In the other modes one call waits at a time. It leads, in the
// same loop, with a nil engine, because no other goroutine can be woken, or can wake it. A lone call
// differs in this:
//
//   - It checks whether its request is done (over, result). A request that notifies the call at its
//     end (watch) costs some 90 instructions more.
//   - It keeps the worker between two rounds, and while it sleeps (ownership.pause).
//   - A reply that it sends gets a round of progress before it is copied (checkEarlyEnd). A call that
//     does not lead cannot have one.

// waiter is a waiting call as a task of the engine.
type waiter call

// Do implements engine.Doer: the owner of the worker starts the operation of a call whose goroutine
// may have parked already.
func (t *waiter) Do() {
	c := (*call)(t)
	e := c.w.owner.engine
	if err := c.w.owner.misused(); err != nil {
		e.End(&c.Waiter, err)
	} else if over, err := c.carryOut(); over {
		e.End(&c.Waiter, err)
	} else {
		e.JoinFor(&c.Waiter)
	}
}

// await is wait without dropping the call, from which the caller takes the result. lost reports
// that the operation goes on with the call: then the caller must not drop it.
func (c *call) await(ctx context.Context) (lost bool, err error) {
	w := c.w
	returned := false
	defer func() {
		if !returned {
			c.unwind(recover())
		}
		w.wake.endWait()
	}()
	if !w.owner.tryAcquire() {
		lost, err = c.awaitDelegated(ctx)
	} else if over, result := c.carryOut(); over {
		err = result
		w.owner.release()
	} else {
		w.owner.engine.Ready(&c.Waiter, c.kind())
		w.owner.engine.Join(&c.Waiter)
		lost, err = c.continueWait(ctx)
	}
	returned = true
	return lost, err
}

// awaitDelegated is await for a call that the owner of the worker starts.
func (c *call) awaitDelegated(ctx context.Context) (lost bool, err error) {
	w := c.w
	w.owner.engine.Ready(&c.Waiter, c.kind())
	c.Of((*waiter)(c))
	if !w.owner.pushOrAcquire(&c.Task) {
		return c.park(ctx)
	}
	return c.continueWait(ctx)
}

// unwind is called when a call that waits panics with v. Whenever the call releases the worker, it
// may raise the panic of a callback. Then the call must leave the engine, because others may be
// waiting for it to lead. If v is nil the goroutine is ending, and abandonShared has ended all
// waits.
func (c *call) unwind(v any) {
	if v == nil {
		return
	}
	w := c.w
	defer w.wake.endWait()
	if _, ok := v.(*CallbackPanic); ok || !w.owner.multi { // after another panic an engine keeps its owner for good
		w.owner.resume()
		if c.Waits() { // [unwind]
			c.endAbandoned()
			c.detach()
		}
		w.owner.engine.Leave(&c.Waiter)
		w.owner.release()
	}
	panic(v)
}

// continueWait continues the wait: it ends a call that is over, leads, or parks. The caller owns the
// worker; continueWait releases it.
func (c *call) continueWait(ctx context.Context) (lost bool, err error) {
	w := c.w
	switch {
	case c.over():
		return false, c.endOver()
	case c.Leads() && c.event:
		return c.leadForAny(ctx)
	case c.Leads():
		return c.lead(ctx)
	}
	w.owner.release()
	return c.park(ctx)
}

// endOver ends a wait that is over and returns its result. The caller owns the worker; endOver
// releases it.
func (c *call) endOver() error {
	w := c.w
	err := c.result()
	w.owner.engine.Leave(&c.Waiter)
	if !w.abandoned() {
		w.uctw.Push() // sends collected replies, for which the peer may be waiting
	}
	w.owner.release()
	return err
}

// park sleeps until the call is over, or has to lead, or ctx ends. If a callback ends its
// goroutine, all waits end with an error, so the parked calls do not check for that when they
// acquire the worker.
func (c *call) park(ctx context.Context) (lost bool, err error) {
	platform.Step()
	if !platform.ReceiveOr(ctx, c.Wake()) { // [canceled]
		c.w.owner.resume()
		return c.giveUp(ctx, ctx.Err())
	}
	if c.Gone() { // [wake]
		return false, c.Err()
	}
	c.w.owner.resume()
	return c.continueWait(ctx)
}

// lead progresses the worker for all waiting calls, until this call is over or ctx ends. The caller
// owns the worker; lead releases it.
func (c *call) lead(ctx context.Context) (lost bool, err error) {
	w, e := c.w, c.w.owner.engine
	for round := 1; ; round++ {
		n := 0
		if !c.Over() {
			if n = w.round(); n > 0 {
				e.News()
			}
		}
		e.AnnounceNews()
		if c.earlyUnchecked {
			c.checkEarlyEnd()
		}
		step := w.backoff.Next(n)
		if c.over() {
			w.backoff.End()
			return false, c.endOver()
		}
		if (round%64 == 0 || n > 0 && c.r == nil) && ctx.Err() != nil {
			return c.giveUp(ctx, ctx.Err())
		}
		others := e.Woken() > 0
		if step == backoff.Sleep {
			err := c.sleep(ctx)
			if err == nil {
				continue
			}
			if !mustStayAwake(err) && !c.bound && !c.Over() {
				return c.giveUp(ctx, err)
			}
			step = backoff.Rest
		}
		if others && step == backoff.Spin {
			step = backoff.Rest // lets the woken goroutines run before the next round
		}
		w.owner.pause()
		step.Take()
		w.owner.resume()
	}
}

// sleep sleeps, as the leader, until the event set is readable or ctx ends. It returns ucs.ErrBusy
// if there is something to do. The caller owns the worker before and after; sleep releases it in
// between.
func (c *call) sleep(ctx context.Context) error {
	w, e := c.w, c.w.owner.engine
	err := w.wake.arm()
	e.AnnounceNews() // passes on news from delegated tasks and from arming
	if err == nil && c.Over() {
		err = ucs.ErrBusy
	}
	if err != nil {
		return err
	}
	e.Sleeps(true)
	w.owner.pauseArmed()
	platform.Step()
	err = w.wake.Park(ctx) // [slumber]
	platform.Step()
	w.owner.resume()
	e.Sleeps(false)
	return err
}

// leadForAny is lead for a call that waits for any event: Worker.Wait in thread mode multi.
func (c *call) leadForAny(ctx context.Context) (lost bool, err error) {
	w := c.w
	err = c.sleep(ctx)
	switch {
	case c.Over():
		err = c.Err()
	case err == ucs.ErrBusy:
		err = nil
	}
	w.owner.engine.Leave(&c.Waiter)
	w.owner.release()
	return false, err
}

// giveUp gives up waiting for a reason, mostly that ctx has ended: it cancels the operation, or
// goes on waiting where afterWait requires that. The caller owns the worker; giveUp releases it.
func (c *call) giveUp(ctx context.Context, reason error) (lost bool, err error) {
	w := c.w
	err = reason
	said := c.explainDeadline(reason)
	if c.r != nil {
		c.cancelFor(ctx, reason) // [give up]
		if !c.over() {
			c.bound, err = c.afterWait(reason)
		}
		if c.bound {
			lost, err = c.continueWait(context.Background())
			return lost, replaceReason(canceled(ctx, reason, err), reason, said)
		}
	}
	if c.over() {
		err = canceled(ctx, reason, c.result())
	} else {
		lost = c.detach()
	}
	w.owner.engine.Leave(&c.Waiter)
	w.owner.release()
	return lost, replaceReason(err, reason, said)
}

// detach ends the wait for something that goes on. It reports whether the operation goes on with
// the call, which then must not be dropped.
func (c *call) detach() (lost bool) {
	w, r := c.w, c.r
	w.endpointWaiters = slices.DeleteFunc(w.endpointWaiters, func(l *call) bool { return l == c })
	switch {
	case r == nil:
		return false
	case r.state&stateWatched != 0:
		r.unwatch(c)
	case !c.given:
		r.free()
	}
	return !c.given
}

// carryOut starts the operation that the call waits for. It reports whether the operation has ended
// already, and its error. The caller owns the worker.
func (c *call) carryOut() (over bool, err error) {
	if c.start != nil { // [carry out]
		if c.r, err = c.begin(); c.r == nil && (err != nil || !c.awaitsEndpoints) {
			return true, err
		}
	}
	switch r := c.r; {
	case r == nil:
		return c.nothingStarted()
	case c.given && r.life == lifeIdle: // freed after the check in Request.Wait
		c.r = nil
		return true, errFreed
	case r.state&stateDone != 0:
		return true, c.takeRequest()
	case c.w.owner.multi:
		r.watch(c)
	}
	return false, nil
}

// nothingStarted is carryOut for a call that waits for something other than a request.
func (c *call) nothingStarted() (over bool, err error) {
	w := c.w
	switch {
	case c.awaitsEndpoints:
		if w.endpoints.Len() == 0 { // endpoints that are being closed still count
			return true, nil
		}
		w.endpointWaiters = append(w.endpointWaiters, c)
	case c.event:
		if err = w.wake.needWakeup(); err == nil {
			err = w.wake.armAnew(uct.EventAny)
		}
		if err == ucs.ErrBusy {
			return true, nil
		}
		return err != nil, err
	case w.closed:
		return true, w.closedFor("a call that waits")
	}
	return false, nil
}
