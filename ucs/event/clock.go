package event

import "time"

// start is the zero of the monotonic clock.
var start = time.Now()

// monotonic is the time since the process started. It does not jump.
func monotonic() time.Duration { return time.Since(start) }

// Clock is a clock that is read at most once between two calls of Tick, for
// everything that wants to know about when something happened. It belongs to one
// goroutine. The zero value is ready.
type Clock struct {
	now   time.Duration
	fresh bool
}

// Tick lets the clock go on: the next Now reads the time.
func (c *Clock) Tick() { c.fresh = false }

// Now returns the time since the process started, as of the first call after
// the last Tick.
func (c *Clock) Now() time.Duration {
	if !c.fresh {
		c.now, c.fresh = monotonic(), true
	}
	return c.now
}
