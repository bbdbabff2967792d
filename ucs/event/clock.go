package event

import (
	"time"

	"github.com/ucx-go/ucx/internal/cpu"
)

// start is the zero of the monotonic clock.
var start = time.Now()

// monotonic is the time since the process started. It does not jump.
func monotonic() time.Duration { return time.Since(start) }

// Clock is a clock that is read once in a round of its user, unless that wants it read
// again, for everything that wants to know about when something happened. It belongs
// to one goroutine. The zero value is ready.
type Clock struct {
	now   time.Duration
	read  uint64 // the round after that of the last reading
	count uint64 // of the processor's counter, then
}

// moment is how far that goes while Rough is good enough.
var moment = cpu.Moment()

// Now returns the time since the process started, as of the first call in this
// round. Rounds are numbered by the caller.
func (c *Clock) Now(round uint64) time.Duration {
	if c.read != round+1 {
		return c.Again(round)
	}
	return c.now
}

// Rough is Now, or what an earlier round was told if that was some ten microseconds ago: for
// those who count in milliseconds and ask for each message. A clock may cost as much
// as a message, and a hundred times that in a virtual machine that has no good one, where
// each reading leaves the machine; the processor's counter costs next to nothing. It need not be
// even: behind a sleep call Forget, as some of them sleep as well.
func (c *Clock) Rough(round uint64) time.Duration {
	if c.read == round+1 || cpu.Counter()-c.count < moment {
		return c.now
	}
	return c.Again(round)
}

// Again is Now read anew, for who has spent the round waiting.
func (c *Clock) Again(round uint64) time.Duration {
	c.now, c.read, c.count = monotonic(), round+1, cpu.Counter()
	return c.now
}

// Forget has the next call read the clock, wherever the counter of the processor it is made on
// stands.
func (c *Clock) Forget() { c.read, c.count = 0, cpu.Counter()-1<<63 }
