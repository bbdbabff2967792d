package async

import (
	"fmt"
	"slices"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
)

// Func is called with the id of its handler: a descriptor with its events, or the id of a
// timer without events.
type Func func(id int, ev event.Events)

// Ids of timers, as C has them; those below are descriptors.
const (
	minTimerID = 1_000_000
	maxTimers  = 1_000_000
)

// handler is a function and when to call it.
type handler struct {
	c      *Context
	id     int
	fn     Func
	events event.Events  // what is asked for of a descriptor; if 0 it is not in the set
	timer  *event.Timer  // nil: a descriptor
	every  time.Duration // the interval of a timer
	queued bool          // it is in Context.due
	came   event.Events  // since then
}

// asking is all that can be asked for.
const asking = event.Read | event.Write | event.Err | event.Hup | event.Edge

// SetEventHandler calls fn while the descriptor is ready for one of the events; with
// event.Edge it calls fn once each time that the descriptor becomes ready. Err and Hup are
// always reported, unless ev is empty: then nothing is. A descriptor has one handler: a
// second one gives ucs.ErrAlreadyExists. The descriptor must stay open until the handler is
// removed, and should be nonblocking, because another reader may have been faster.
func (c *Context) SetEventHandler(fd int, ev event.Events, fn Func) error {
	switch {
	case fd < 0 || fn == nil || ev&^asking != 0:
		return fmt.Errorf("async: handler of descriptor %d for events %#x: %w", fd, uint32(ev), ucs.ErrInvalidParam)
	case fd >= minTimerID:
		return fmt.Errorf("async: descriptor %d, the limit is %d: %w", fd, minTimerID-1, ucs.ErrExceedsLimit)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errClosed
	}
	if c.handlers[fd] != nil {
		return fmt.Errorf("async: descriptor %d has a handler: %w", fd, ucs.ErrAlreadyExists)
	}
	h := &handler{c: c, id: fd, fn: fn, events: ev}
	if err := c.set.Add(fd, ev, h); err != nil {
		return fmt.Errorf("async: %w", err)
	}
	if ev == 0 { // now it is known that it can be watched
		_ = c.set.Remove(fd)
	}
	return c.add(h)
}

// ModifyHandler changes the events of a descriptor. Missed events that are no longer asked
// for are dropped. A descriptor without a handler gives ucs.ErrNoElem, a timer
// ucs.ErrInvalidParam.
func (c *Context) ModifyHandler(fd int, ev event.Events) error {
	if fd >= minTimerID || ev&^asking != 0 {
		return fmt.Errorf("async: events %#x of handler %d: %w", uint32(ev), fd, ucs.ErrInvalidParam)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.handlers[fd]
	if h == nil {
		return errNoHandler(fd)
	}
	return h.watch(ev)
}

// watch asks for other events. Without any the descriptor leaves the set, which tells
// of hang-ups in any case, again and again.
func (h *handler) watch(ev event.Events) (err error) {
	switch set := h.c.set; {
	case ev == 0 && h.events != 0:
		err = set.Remove(h.id)
	case ev != 0 && h.events == 0:
		err = set.Add(h.id, ev, h)
	case ev != h.events:
		err = set.Modify(h.id, ev)
	}
	if err != nil {
		return fmt.Errorf("async: %w", err)
	}
	h.events = ev
	return nil
}

// AddTimer calls fn at every interval, for the first time after one interval, until the
// handler with the returned id is removed. Intervals that expire before fn could be called
// are combined into one call.
func (c *Context) AddTimer(interval time.Duration, fn Func) (id int, err error) {
	if interval <= 0 || fn == nil {
		return 0, fmt.Errorf("async: timer with an interval of %v: %w", interval, ucs.ErrInvalidParam)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, errClosed
	}
	if len(c.handlers) >= maxTimers {
		return 0, fmt.Errorf("async: %d handlers: %w", len(c.handlers), ucs.ErrExceedsLimit)
	}
	h := &handler{c: c, id: c.newID(), fn: fn, every: interval}
	if h.timer, err = c.timers.After(interval, h.expire); err != nil {
		return 0, fmt.Errorf("async: %w", err)
	}
	if err := c.add(h); err != nil {
		return 0, err
	}
	return h.id, nil
}

// newID returns an id that no timer has, and none had for as long as possible.
func (c *Context) newID() int {
	for {
		c.lastID++
		if c.lastID >= minTimerID+maxTimers {
			c.lastID = minTimerID
		}
		if c.handlers[c.lastID] == nil {
			return c.lastID
		}
	}
}

// add makes a handler known that is in the set already.
func (c *Context) add(h *handler) error {
	c.handlers[h.id] = h
	if err := c.startLoop(); err != nil {
		_ = c.remove(h)
		return err
	}
	return nil
}

// RemoveHandler removes the handler of a descriptor or a timer: its function is not called
// any more. With sync it also waits until the function is not running; if that function
// calls it, it does not wait. An id without a handler gives ucs.ErrNoElem.
func (c *Context) RemoveHandler(id int, sync bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.handlers[id]
	if h == nil {
		return errNoHandler(id)
	}
	err := c.remove(h)
	if sync {
		c.await(func() bool { return c.running != h })
	}
	return err
}

// remove forgets a handler. Its descriptor may have been closed: that is told.
func (c *Context) remove(h *handler) (err error) {
	delete(c.handlers, h.id)
	if h.queued {
		c.due = slices.DeleteFunc(c.due, func(other *handler) bool { return other == h })
	}
	if h.timer != nil {
		h.timer.Stop()
	} else {
		err = h.watch(0)
	}
	if len(c.handlers) == 0 {
		c.stopLoop()
	}
	return err
}

var errClosed = fmt.Errorf("async: the context is closed: %w", ucs.ErrInvalidParam)

func errNoHandler(id int) error { return fmt.Errorf("async: no handler %d: %w", id, ucs.ErrNoElem) }
