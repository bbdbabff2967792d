package ucp

import (
	"context"
	"errors"
	"slices"

	"github.com/ucx-go/ucx/ucp/internal/backoff"
	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// In thread mode multi any number of calls may wait at a time. One of them, the leader, progresses
// the worker and sleeps for all. The others park until what they wait for has happened, or until
// one of them is to lead (internal/engine).

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

// waitShared is await in thread mode multi.
func (c *call) waitShared(ctx context.Context) (lost bool, err error) {
	w := c.w
	defer c.unwind()
	c.Ready(c.kind())
	if w.owner.tryAcquireShared() {
		if over, err := c.carryOut(); over {
			w.owner.releaseShared()
			return false, err
		}
		w.owner.engine.Join(&c.Waiter)
		return c.stay(ctx)
	}
	c.Of((*waiter)(c))
	w.owner.engine.Push(&c.Task)
	if w.owner.engine.Retake() {
		w.owner.beginShared() // carries out the task that was just pushed
		w.owner.checkShared()
		return c.stay(ctx)
	}
	return c.park(ctx)
}

// unwind is deferred by a call that waits. Whenever the call releases the worker, it may raise the
// panic of a callback. Then the call must leave the engine, because others may be waiting for it to
// lead.
func (c *call) unwind() {
	v := recover()
	if v == nil { // also if the goroutine is ending: abandonShared has told all waiters
		return
	}
	if _, ok := v.(*CallbackPanic); ok {
		w := c.w
		w.owner.waitShared()
		if c.Waits() { // [unwind]
			c.endAbandoned()
			c.detach()
		}
		w.owner.engine.Leave(&c.Waiter)
		w.owner.releaseShared()
	}
	panic(v)
}

func (c *call) kind() engine.Kind {
	switch {
	case c.event:
		return engine.Event
	case c.start == nil && c.r == nil:
		return engine.Always
	}
	return engine.Operation
}

// carryOut starts the operation that the call waits for, and reports whether that is over already.
// The caller owns the worker.
func (c *call) carryOut() (over bool, err error) {
	if c.start != nil { // [carry out]
		if c.r, err = c.begin(); err != nil {
			return true, err
		}
	}
	switch r := c.r; {
	case r == nil:
		return c.nothingStarted()
	case c.given && r.life == lifeIdle: // freed after the check in Request.Wait
		c.r = nil
		return true, errFreed
	case r.state&stateDone == 0:
		r.watch(c)
		return false, nil
	default:
		c.info, err, c.r = r.info, r.err, nil
		if !c.given {
			r.free()
		}
		return true, err
	}
}

// errFreed ends a wait on a request that another goroutine has freed. Request.Wait then panics with
// usedAfterFree.
var errFreed = errors.New("a request was freed while a goroutine waited for it")

// nothingStarted is carryOut for a call without a request: its operation is done, or it waits for
// something other than a request.
func (c *call) nothingStarted() (over bool, err error) {
	w := c.w
	switch {
	case c.awaitsEndpoints:
		if c.endpointsGone() {
			return true, nil
		}
		w.endpointWaiters = append(w.endpointWaiters, c)
		return false, nil
	case c.event:
		if err = w.wake.needWakeup(); err == nil {
			err = w.wake.armAnew(uct.EventAny)
		}
		if err == ucs.ErrBusy {
			return true, nil
		}
		return err != nil, err
	case c.start == nil && !w.closed:
		return false, nil
	case c.start == nil:
		err = w.closedFor("a call that waits")
	}
	return true, err
}

// park sleeps until the call is over, or has to lead, or ctx ends. If a callback ends its
// goroutine, the calls that wait already are ended with an error: they do not check for that when
// they acquire the worker.
func (c *call) park(ctx context.Context) (lost bool, err error) {
	select {
	case <-c.Wake(): // [wake]
		if c.Gone() {
			return false, c.Err()
		}
		c.w.owner.waitShared()
		return c.stay(ctx)
	case <-ctx.Done(): // [canceled]
		c.w.owner.waitShared()
		return c.giveUp(ctx, ctx.Err())
	}
}

// stay continues the wait: it ends a call that is over, leads, or parks. The caller owns the
// worker; stay releases it.
func (c *call) stay(ctx context.Context) (lost bool, err error) {
	switch {
	case c.Over():
		c.w.owner.engine.Leave(&c.Waiter)
		if !c.w.abandoned() {
			c.w.uctw.Push()
		}
		c.w.owner.releaseShared()
		return false, c.Err()
	case c.Leads() && c.event:
		return c.leadForAny(ctx)
	case c.Leads():
		return c.lead(ctx)
	}
	c.w.owner.releaseShared()
	return c.park(ctx)
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
		e.Tell()
		step := w.backoff.Next(n)
		if c.Over() {
			w.backoff.End()
			return c.stay(ctx)
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
			if !awake(err) && !c.bound && !c.Over() {
				return c.giveUp(ctx, err)
			}
			step = backoff.Rest
		}
		if others && step == backoff.Spin {
			step = backoff.Rest // lets the woken goroutines run before the next round
		}
		w.owner.releaseShared()
		step.Take()
		w.owner.waitShared()
	}
}

// sleep sleeps, as the leader, until the event set is readable or ctx ends. It returns ucs.ErrBusy
// if there is something to do. The caller owns the worker before and after; sleep releases it in
// between.
func (c *call) sleep(ctx context.Context) error {
	w, e := c.w, c.w.owner.engine
	err := w.wake.arm()
	e.Tell() // what delegated tasks or arming have ended since the last call
	if err == nil && c.Over() {
		err = ucs.ErrBusy
	}
	if err != nil {
		return err
	}
	e.Sleeps(true)
	w.owner.gate &^= gateInside
	w.owner.handOver()
	err = w.wake.park(ctx) // [slumber]
	w.owner.waitShared()
	e.Sleeps(false)
	return err
}

// leadForAny is lead for a call that waits for any event (Worker.Wait).
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
	w.owner.releaseShared()
	return false, err
}

// giveUp gives up waiting for a reason, mostly that ctx has ended: it cancels the operation, or
// goes on waiting where outlive requires that. The caller owns the worker; giveUp releases it.
func (c *call) giveUp(ctx context.Context, reason error) (lost bool, err error) {
	w := c.w
	err = reason
	said := c.waitedFor(reason)
	if c.r != nil {
		c.cancelFor(ctx, reason) // [give up]
		if !c.Over() {
			c.bound, err = c.outlive(reason)
		}
		if c.bound {
			return c.stay(context.Background())
		}
	}
	if c.Over() {
		err = canceled(ctx, reason, c.Err())
	} else {
		lost = c.detach()
	}
	w.owner.engine.Leave(&c.Waiter)
	w.owner.releaseShared()
	return lost, instead(err, reason, said)
}

// detach ends the wait for something that goes on. It reports whether the operation goes on with
// the call, which then must not be dropped.
func (c *call) detach() (lost bool) {
	w := c.w
	w.endpointWaiters = slices.DeleteFunc(w.endpointWaiters, func(l *call) bool { return l == c })
	if c.r == nil {
		return false
	}
	c.r.unwatch(c)
	return !c.given
}
