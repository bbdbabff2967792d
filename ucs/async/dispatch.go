package async

import (
	"slices"

	"github.com/ucx-go/ucx/internal/gid"
	"github.com/ucx-go/ucx/ucs/event"
)

// One goroutine dispatches at a time: it has the turn. With Context.mu held it asks the
// set what is ready, which goes to a list; what is in the list it calls, one after the
// other and without the lock, until there is no more or somebody blocks. So nothing is
// found ready twice that has been called for once, and what a blocked context finds
// waits in the list. Who has the turn looks at the list last of all, under the lock
// with which he gives it back: what is due then is left to who unblocks.

// takeTurn dispatches. mu is held, and nobody has the turn.
func (c *Context) takeTurn(dispatch func() int) int {
	c.turn = gid.Self()
	defer func() { // whatever becomes of the functions
		c.turn = 0
		c.changed.Broadcast()
	}()
	return dispatch()
}

// dispatch calls what was missed, and what is ready then.
func (c *Context) dispatch() int {
	n := c.run()
	if !c.closed {
		c.set.Poll()
	}
	return n + c.run()
}

// HandleEvent implements event.Handler: the descriptor is ready.
func (h *handler) HandleEvent(ev event.Events) {
	h.came |= ev
	if !h.queued {
		h.queued = true
		h.c.due = append(h.c.due, h)
	}
}

// expire is the function of a timer of the set.
func (h *handler) expire() {
	h.HandleEvent(0)
	_ = h.timer.Reset(h.every) // fails for closed timers only, which do not expire
}

// run calls what is due.
func (c *Context) run() (n int) {
	for len(c.due) > 0 && c.blocked == 0 {
		h := c.due[0]
		c.due = slices.Delete(c.due, 0, 1)
		ev := h.came
		h.queued, h.came = false, 0
		if h.timer == nil {
			if h.events == 0 || ev&(h.events|event.Err|event.Hup) == 0 {
				continue // it was missed, and is not asked for any more
			}
			ev &= h.events | event.Err | event.Hup
		}
		c.call(h, ev)
		n++
	}
	return n
}

// call calls a function, without the lock.
func (c *Context) call(h *handler, ev event.Events) {
	c.running = h
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		c.running = nil
		c.changed.Broadcast()
	}()
	h.fn(h.id, ev)
}
