package event

import (
	"time"

	"github.com/ucx-go/ucx/internal/cpu"
)

// start is the zero of the monotonic clock.
var start = time.Now()

// monotonic is the time since the process started. It does not jump.
func monotonic() time.Duration { return time.Since(start) }

// Clock reads the time at most once in a round of its user, unless Again asks for a new
// reading. It belongs to one goroutine. The zero value is ready to use.
type Clock struct {
	now   time.Duration
	read  uint64 // the round after that of the last reading
	count uint64 // of the processor's counter, then
}

// moment is how far that goes while Rough is good enough.
var moment = cpu.Moment()

// Now returns the time since the process started, as of the first call in this round. The
// caller numbers the rounds.
func (c *Clock) Now(round uint64) time.Duration {
	if c.read != round+1 {
		return c.Again(round)
	}
	return c.now
}

// Rough returns the time of Now, or of an earlier round's reading if that is at most some
// ten microseconds old. It is for users that count in milliseconds and need the time for
// each message. To read a clock may cost as much as a message, and a hundred times that in
// a virtual machine without a good clock, where each reading leaves the machine; to read
// the processor's counter costs almost nothing. The counter may run unevenly: call Forget
// after a sleep, because some counters stop then.
func (c *Clock) Rough(round uint64) time.Duration {
	if c.read == round+1 || cpu.Counter()-c.count < moment {
		return c.now
	}
	return c.Again(round)
}

// Again reads the clock anew, for a round that was spent waiting.
func (c *Clock) Again(round uint64) time.Duration {
	c.now, c.read, c.count = monotonic(), round+1, cpu.Counter()
	return c.now
}

// Forget makes the next call read the clock, whatever the processor's counter says.
func (c *Clock) Forget() { c.read, c.count = 0, cpu.Counter()-1<<63 }
