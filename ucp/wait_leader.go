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

// In thread mode multi any number of calls wait at a time. One leads: it progresses the
// worker and sleeps for all of them. The others are woken by the end of what they wait
// for, or to lead (internal/engine).

// waiter is a call that waits, as the engine sees it.
type waiter call

// Do implements engine.Doer: it starts what a goroutine waits for that parks already.
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

// waitShared is wait where others may use the worker meanwhile.
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
		w.owner.beginShared() // which has carried it out
		w.owner.checkShared()
		return c.stay(ctx)
	}
	return c.park(ctx)
}

// unwind is deferred by who waits. At the end of any of its turns the call may panic with
// what a callback has panicked with: then others must not go on waiting for it to lead.
func (c *call) unwind() {
	v := recover()
	if v == nil { // or the goroutine ends, of which everybody was told
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

// carryOut starts what is to be waited for, in a turn. It reports whether that is over.
func (c *call) carryOut() (over bool, err error) {
	if c.start != nil { // [carry out]
		if c.r, err = c.begin(); err != nil {
			return true, err
		}
	}
	switch r := c.r; {
	case r == nil:
		return c.nothingStarted()
	case c.given && r.life == lifeIdle: // since the look of who waits
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

// errFreed ends a wait that will panic with usedAfterFree.
var errFreed = errors.New("a request was freed while a goroutine waited for it")

// nothingStarted is carryOut where there is no request: the operation is done, or it is
// something else that is waited for.
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

// park sleeps until the call is over, or has to lead, or ctx ends. Who waits already when a
// goroutine is lost is told by the end of the wait: its turns do not look for that.
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

// stay goes on waiting in a turn.
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

// lead progresses the worker for all who wait, until the call is over or ctx ends. It
// begins and ends in a turn.
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
			step = backoff.Rest // who was woken runs before this one has more for him
		}
		w.owner.releaseShared()
		step.Take()
		w.owner.waitShared()
	}
}

// sleep sleeps, as the leader, until the event set is readable or ctx ends, unless there is
// something to do. It begins and ends in a turn, and sleeps in none.
func (c *call) sleep(ctx context.Context) error {
	w, e := c.w, c.w.owner.engine
	err := w.wake.arm()
	e.Tell() // of what tasks have ended at the begin of this turn, or arming
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

// leadForAny is lead for who waits for anything to happen.
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

// giveUp ends the waiting for a reason, mostly that ctx has ended, in a turn which it
// ends.
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

// detach ends the waiting for something that goes on, and reports whether it does so
// with the description.
func (c *call) detach() (lost bool) {
	w := c.w
	w.endpointWaiters = slices.DeleteFunc(w.endpointWaiters, func(l *call) bool { return l == c })
	if c.r == nil {
		return false
	}
	c.r.unwatch(c)
	return !c.given
}
