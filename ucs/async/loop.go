package async

import (
	"context"
	"fmt"

	"github.com/ucx-go/ucx/ucs/event"
)

// loop is the goroutine that serves a context of the thread modes while that has
// handlers. One that is replaced ends as soon as it notices.
type loop struct{ sleeper *event.Sleeper }

// startLoop starts it, if it is wanted and not there.
func (c *Context) startLoop() error {
	if c.mode == ModePoll || c.loop != nil {
		return nil
	}
	s, err := event.NewSleeper(c.set)
	if err != nil {
		return fmt.Errorf("async: %w", err)
	}
	c.loop = &loop{s}
	c.loops++
	go c.serve(c.loop)
	return nil
}

// stopLoop lets it end.
func (c *Context) stopLoop() {
	if c.loop != nil {
		c.loop.sleeper.Close()
		c.loop = nil
		c.changed.Broadcast()
	}
}

func (c *Context) serve(l *loop) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() {
		if c.loop == l { // a function has ended the goroutine
			c.stopLoop()
			_ = c.startLoop() // without descriptors the next handler tries again
		}
		c.loops--
		c.changed.Broadcast()
	}()
	for c.loop == l {
		if c.turn != 0 || c.blocked > 0 && len(c.due) > 0 {
			c.changed.Wait() // what is ready stays so
			continue
		}
		c.takeTurn(c.dispatch)
		if c.loop != l || c.blocked > 0 && len(c.due) > 0 {
			continue
		}
		if !c.sleep(l) {
			return
		}
	}
}

// sleep sleeps until something is ready, without the lock.
func (c *Context) sleep(l *loop) bool {
	c.mu.Unlock()
	defer c.mu.Lock()
	return l.sleeper.Sleep(context.Background()) == nil
}
