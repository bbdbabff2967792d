package event

import "time"

// start is the zero of the monotonic clock.
var start = time.Now()

// monotonic is the time since the process started. It does not jump.
func monotonic() time.Duration { return time.Since(start) }

// Clock is a clock that is read once in a round of its user, unless that wants it read
// again, for everything that wants to know about when something happened. It belongs
// to one goroutine. The zero value is ready.
type Clock struct {
	now  time.Duration
	read uint64 // the round after that of the last reading
}

// Now returns the time since the process started, as of the first call in this
// round. Rounds are numbered by the caller.
func (c *Clock) Now(round uint64) time.Duration {
	if c.read != round+1 {
		return c.Again(round)
	}
	return c.now
}

// Again is Now read anew, for who has spent the round waiting.
func (c *Clock) Again(round uint64) time.Duration {
	c.now, c.read = monotonic(), round+1
	return c.now
}
