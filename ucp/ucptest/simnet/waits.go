//go:build simulate

package simnet

import (
	"context"
	"errors"
	"time"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/ucs"
)

// waitStep waits for the operations of a step, at most as long as the step says.
func (g *goroutine) waitStep(s *Step) {
	if s.Wait > 0 {
		if s.Flags&(flagCallback|flagFree) != flagCallback|flagFree && s.Class%2 == 0 {
			g.waitRequests(s)
		} else {
			g.wait(g.wk.l.w.now+s.Wait, func() bool {
				for _, o := range g.step {
					if !o.isDone() {
						return false
					}
				}
				return true
			})
		}
	}
	if s.Flags&flagCancel != 0 {
		for _, o := range g.step {
			if !o.over && o.r != nil {
				o.cancel()
			}
		}
	}
	g.wk.reap()
}

// waitRequests waits for each request of the step by Request.Wait.
func (g *goroutine) waitRequests(s *Step) {
	l := g.wk.l
	d, from := s.Wait, l.w.now
	forever := remote[s.Kind] && s.ID%2 == 0 && l.readsAll()
	if forever {
		d = time.Hour
	}
	ctx, cancel := platform.WithTimeout(context.Background(), d)
	defer cancel()
	g.waits = true
	defer func() {
		g.waits = false
		for _, o := range g.step {
			if o.over && !o.callback {
				o.free()
			}
		}
	}()
	for _, o := range g.step {
		if o.over {
			continue
		}
		o.waited = o.mayCancel
		err := o.r.Wait(ctx)
		if o.r.Done() {
			o.inTime()
			continue
		}
		o.waited = false
		if !errors.Is(err, context.DeadlineExceeded) {
			l.j.fail("Request.Wait of an operation in flight: %v (%s)", err, o.s)
		}
	}
	if late := l.w.now - from; forever && late > time.Second {
		l.j.fail("worker %d has waited %v for %s", g.wk.number, late, s)
	}
}

// remote are the operations that need nothing of the peer's application but progress.
var remote = map[string]bool{"put": true, "get": true, "add": true, "fadd": true, "atomic": true}

// condition is a context that ends at a time, or when done returns true, or when the run has failed.
type condition struct {
	context.Context
	l     *load
	until time.Duration
	done  func() bool
}

func (c *condition) Err() error {
	if c.l.w.now >= c.until || c.done() || c.l.j.err != nil {
		return context.Canceled
	}
	return nil
}

// condition returns a condition for a goroutine of the worker, which is looked at again at the time
// until. The caller calls release in the end.
func (wk *worker) condition(until time.Duration, done func() bool) (c *condition, release func()) {
	w := wk.l.w
	c = &condition{context.Background(), wk.l, until, done}
	if until == platform.Never {
		return c, func() {}
	}
	e := w.schedule(until, wk.proc.Process, func() {})
	return c, func() { w.cancel(e) }
}

// wait progresses the worker until done returns true, which must not call the library, or until a
// time.
func (g *goroutine) wait(until time.Duration, done func() bool) {
	if !g.wk.proc.plan.Multi {
		g.waitAlone(until, done)
		return
	}
	c, release := g.wk.condition(until, done)
	defer release()
	if c.Err() == nil {
		g.wk.w.Run(c)
	}
}

// waitAlone does the same while no other goroutine uses the worker.
func (g *goroutine) waitAlone(until time.Duration, done func() bool) {
	wk := g.wk
	c, release := wk.condition(until, done)
	defer release()
	if p := wk.proc.plan; !p.Sleep && !p.Arm {
		wk.proc.poll(wk.w, until, func() bool { return c.Err() != nil })
		return
	}
	for c.Err() == nil {
		if wk.w.Progress() > 0 {
			wk.proc.stirs++
		} else if wk.proc.plan.Arm {
			wk.arm(c)
		} else if err := wk.w.Wait(c); err != nil && c.Err() == nil {
			wk.l.j.fail("Worker.Wait: %v", err)
		}
		wk.l.w.Yield() // a call takes time, even if there is always something to do
	}
}

// arm arms the worker, and sleeps until its event descriptor would be readable or c ends.
func (wk *worker) arm(c *condition) {
	switch err := wk.w.Arm(); {
	case errors.Is(err, ucs.ErrBusy):
	case err != nil:
		wk.l.j.fail("Worker.Arm: %v", err)
	default:
		wk.proc.readable(wk.w, c)
	}
}
