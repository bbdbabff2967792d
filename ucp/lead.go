package ucp

import (
	"context"

	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucs"
)

// In thread mode multi any number of calls wait at a time. One leads: it progresses the
// worker and sleeps for all of them. The others are woken by the end of what they wait
// for, or to lead (internal/engine).

// waitTogether is wait where others may use the worker meanwhile.
func (c *call) waitTogether(ctx context.Context) (lost bool, err error) {
	w := c.w
	c.Ready(c.kind())
	if w.tryTurn() {
		if c.carryOut() {
			w.endTurn()
			return false, c.err
		}
		w.engine.Join(&c.Waiter)
		return c.stay(ctx)
	}
	w.engine.Push(&c.Task)
	if w.engine.Retake() {
		w.beginTurn() // which has carried it out
		return c.stay(ctx)
	}
	return c.park(ctx)
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
func (c *call) carryOut() bool {
	if c.start != nil {
		if c.r, c.err = c.start(c); c.r == nil && (c.over == nil || c.err != nil) {
			return true
		}
	}
	switch r := c.r; {
	case c.w.closed && r == nil && c.over == nil:
		c.err = ucs.ErrInvalidParam
	case r == nil:
		return c.over != nil && c.over(c.w)
	case r.state&stateDone == 0:
		r.watch(c)
		return false
	default:
		c.info, c.err, c.r = r.info, r.err, nil
		if !c.given {
			r.free()
		}
	}
	return true
}

// begin is carryOut for a goroutine that waits already.
func (c *call) begin() {
	if c.carryOut() {
		c.w.endWait(c)
	} else {
		c.w.engine.JoinFor(&c.Waiter)
	}
}

// park sleeps until the call is over, or has to lead, or ctx ends.
func (c *call) park(ctx context.Context) (lost bool, err error) {
	select {
	case <-c.Wake():
		if c.Gone() {
			return false, c.err
		}
		c.w.takeTurn()
		return c.stay(ctx)
	case <-ctx.Done():
		c.w.takeTurn()
		return c.giveUp(ctx)
	}
}

// stay goes on waiting in a turn.
func (c *call) stay(ctx context.Context) (lost bool, err error) {
	switch {
	case c.Over():
		c.w.engine.Leave(&c.Waiter)
		c.w.endTurn()
		return false, c.err
	case c.Leads() && c.event:
		return c.doze(ctx)
	case c.Leads():
		return c.lead(ctx)
	}
	c.w.endTurn()
	return c.park(ctx)
}

// lead progresses the worker for all who wait, until the call is over or ctx ends. It
// begins and ends in a turn.
func (c *call) lead(ctx context.Context) (lost bool, err error) {
	w, e := c.w, c.w.engine
	inTurn := true
	defer func() {
		if inTurn || !c.Leads() {
			return
		}
		if v := recover(); v != nil { // of a callback, and not the end of the goroutine
			w.takeTurn()
			c.detach()
			e.Leave(&c.Waiter)
			w.endTurn()
			panic(v)
		}
	}()
	for round := 1; ; round++ {
		n := 0
		if !c.Over() {
			n = w.roundForAll()
		}
		if c.Over() {
			inTurn = false
			return c.stay(ctx)
		}
		if (round%64 == 0 || n > 0 && c.r == nil) && ctx.Err() != nil {
			inTurn = false
			return c.giveUp(ctx)
		}
		others := e.Woken() > 0
		step := w.pace.next(n)
		if step == paceSleep {
			err := w.arm()
			if err == nil {
				inTurn = false
				err = c.sleep(ctx)
				inTurn = true
				if err == nil {
					continue
				}
			}
			if err != ucs.ErrBusy && !c.Over() {
				inTurn = false
				return c.giveUpFor(ctx, err)
			}
		}
		inTurn = false
		w.endTurn()
		if others && step == paceSpin {
			step = paceRest // who was woken runs before this one has more for him
		}
		step.take()
		w.takeTurn()
		inTurn = true
	}
}

// sleep sleeps, as the leader, until the event set that was armed is readable or ctx
// ends. It begins and ends in a turn, and sleeps in none.
func (c *call) sleep(ctx context.Context) error {
	w := c.w
	w.engine.Sleeps(true)
	w.gate &^= gateInside
	w.passOn()
	err := w.park(ctx)
	w.takeTurn()
	w.engine.Sleeps(false)
	return err
}

// doze is lead for who waits for anything to happen.
func (c *call) doze(ctx context.Context) (lost bool, err error) {
	w := c.w
	if err = w.arm(); err == nil {
		err = c.sleep(ctx)
	} else if err == ucs.ErrBusy {
		err = nil
	}
	if c.Over() {
		err = c.err
	}
	w.engine.Leave(&c.Waiter)
	w.endTurn()
	return false, err
}

// roundForAll is a round of progress, of which those are told who wait for anything.
func (w *Worker) roundForAll() int {
	n := w.round()
	if n > 0 {
		w.engine.Happened()
		if w.armed {
			w.ring()
		}
	}
	return n
}

// giveUp ends the waiting because ctx has ended, in a turn which it ends.
func (c *call) giveUp(ctx context.Context) (lost bool, err error) { return c.giveUpFor(ctx, ctx.Err()) }

func (c *call) giveUpFor(ctx context.Context, reason error) (lost bool, err error) {
	w := c.w
	if c.r != nil && reason == ctx.Err() {
		c.cancel()
	}
	if c.Over() {
		err = c.canceled(ctx, c.err)
	} else {
		lost = c.detach()
		err = reason
	}
	w.engine.Leave(&c.Waiter)
	w.endTurn()
	return lost, err
}

// detach ends the waiting for a request, and reports whether it goes on with the
// description.
func (c *call) detach() (lost bool) {
	if c.r == nil {
		return false
	}
	c.r.unwatch(c)
	return !c.given
}

// watch has the end of the request told to a call.
func (r *Request) watch(c *call) {
	r.state |= stateWatched
	if !c.given {
		r.state |= stateFreed // by the end of it
	}
	c.next, r.waiters = r.waiters, c
}

func (r *Request) unwatch(c *call) {
	at := &r.waiters
	for *at != c {
		at = &(*at).next
	}
	*at = c.next
	if r.waiters == nil {
		r.state &^= stateWatched
	}
}

// tell tells the calls that wait for the request that it has ended.
func (r *Request) tell() {
	r.state &^= stateWatched
	for c := r.waiters; c != nil; {
		next := c.next
		c.info, c.err, c.r, c.next = r.info, r.err, nil, nil
		r.w.endWait(c)
		c = next
	}
	r.waiters = nil
}

// endWait tells a call that what it waits for is over.
func (w *Worker) endWait(c *call) {
	if w.engine.End(&c.Waiter) {
		w.rouse()
	}
}

// endWaits ends all waits that do not end by themselves, with an error.
func (w *Worker) endWaits(err error) {
	w.engine.Each(func(e *engine.Waiter) {
		if c := e.Owner.(*call); !c.Over() {
			c.err = err
			w.endWait(c)
		}
	})
}

// allLeft ends the waits for the last endpoint to be closed.
func (w *Worker) allLeft() {
	w.engine.Each(func(e *engine.Waiter) {
		if c := e.Owner.(*call); !c.Over() && c.over != nil && c.over(w) {
			w.endWait(c)
		}
	})
}

// waitEvent is Worker.Wait where others may use the worker meanwhile.
func (w *Worker) waitEvent(ctx context.Context) error {
	c, err := w.waitingCall(nil)
	if err != nil {
		return err
	}
	c.event = true
	c.Ready(engine.Event)
	w.takeTurn()
	err = w.needWakeup()
	if err == nil {
		err = w.arm()
	}
	if err != nil {
		w.endTurn()
		c.drop()
		if err == ucs.ErrBusy {
			err = nil
		}
		return err
	}
	w.engine.Join(&c.Waiter)
	_, err = c.stay(ctx)
	c.drop()
	return err
}
