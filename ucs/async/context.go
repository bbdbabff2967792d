package async

import (
	"fmt"
	"sync"

	"github.com/ucx-go/ucx/internal/gid"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
)

// Context is a group of handlers. All methods may be called from any goroutine, and
// from the functions of the context.
type Context struct {
	mode Mode

	mu      sync.Mutex // held by dispatch but while a function runs; guards all below
	changed sync.Cond  // somebody may go on who waits for running, turn, loop or blocked

	set      *event.Set
	timers   *event.Timers
	handlers map[int]*handler // by id
	lastID   int              // of a timer
	closed   bool

	due     []*handler // to be called as soon as nobody blocks
	blocked int        // Blocks without their Unblock
	turn    gid.ID     // the goroutine that dispatches, 0: none
	running *handler   // whose function runs

	loop  *loop // what serves the handlers, nil: nothing
	loops int   // goroutines that have not ended yet
}

// New makes a context without handlers. ModeSignal gives ucs.ErrUnsupported.
func New(mode Mode) (*Context, error) {
	switch {
	case mode == ModeSignal:
		return nil, fmt.Errorf("async: no functions can be called from a signal handler in Go: %w", ucs.ErrUnsupported)
	case mode > ModePoll:
		return nil, fmt.Errorf("async: %v: %w", mode, ucs.ErrInvalidParam)
	}
	set, err := event.NewSet()
	if err != nil {
		return nil, fmt.Errorf("async: %w", err)
	}
	c := &Context{mode: mode, set: set, timers: event.NewTimers(set), handlers: make(map[int]*handler), lastID: minTimerID - 1}
	c.changed.L = &c.mu
	all.add(c)
	return c, nil
}

// Mode returns the mode that was given to New.
func (c *Context) Mode() Mode { return c.mode }

// Block keeps the context from calling functions until Unblock has been called as often as
// Block. It returns when no function is running; if a function calls it, it does not wait.
func (c *Context) Block() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocked++
	c.await(func() bool { return c.running == nil })
}

// Unblock ends one Block. The last Unblock calls the functions that were missed, unless
// another goroutine is calling functions or Unblock is called by one. Without a Block it
// gives ucs.ErrInvalidParam.
func (c *Context) Unblock() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocked == 0 {
		return fmt.Errorf("async: the context is not blocked: %w", ucs.ErrInvalidParam)
	}
	c.blocked--
	if c.blocked == 0 && c.turn == 0 {
		c.takeTurn(c.run)
	}
	c.changed.Broadcast()
	return nil
}

// Blocked reports whether the context is blocked.
func (c *Context) Blocked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.blocked > 0
}

// Missed returns the number of handlers whose functions are due but not called because the
// context is blocked.
func (c *Context) Missed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blocked == 0 {
		return 0
	}
	return len(c.due)
}

// Poll calls the functions that were missed and those that are ready, in all modes, and
// returns the number of calls: 0 if another goroutine is calling functions, and inside a
// function of the context. While the context is blocked Poll records them as missed.
func (c *Context) Poll() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.turn != 0 || c.closed {
		return 0
	}
	return c.takeTurn(c.dispatch)
}

// Close removes all handlers and waits until no function is running; if a function calls
// it, it does not wait. On a blocked context it gives ucs.ErrBusy. A second Close does
// nothing.
func (c *Context) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	if c.blocked > 0 {
		return fmt.Errorf("async: the context is blocked %d times: %w", c.blocked, ucs.ErrBusy)
	}
	c.closed = true
	all.remove(c)
	for _, h := range c.handlers {
		_ = c.remove(h) // a descriptor that was closed before is not watched any more
	}
	c.await(func() bool { return c.running == nil && c.loops == 0 })
	err := c.timers.Close()
	if e := c.set.Close(); err == nil {
		err = e
	}
	return err
}

// await waits until something is so, unless the caller is a function of the context.
func (c *Context) await(so func() bool) {
	if c.turn == 0 && so() {
		return
	}
	self := gid.Self()
	for c.turn != self && !so() {
		c.changed.Wait()
	}
}

// contexts are those that are open.
type contexts struct {
	mu   sync.Mutex
	open map[*Context]struct{} // guarded by mu
}

var all = contexts{open: make(map[*Context]struct{})}

func (l *contexts) add(c *Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open[c] = struct{}{}
}

func (l *contexts) remove(c *Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}

// PollAll polls all contexts of the process and returns the number of calls.
func PollAll() int {
	all.mu.Lock()
	list := make([]*Context, 0, len(all.open))
	for c := range all.open {
		list = append(list, c)
	}
	all.mu.Unlock()
	n := 0
	for _, c := range list {
		n += c.Poll()
	}
	return n
}
