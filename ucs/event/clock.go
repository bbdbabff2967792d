package event

import (
	"time"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/platform"
)

// monotonic returns the time since the process started. It does not jump.
func monotonic() time.Duration { return platform.Now() }

// Clock reads the time at most once in each round of progress of its user, except in Again. Only
// one goroutine may use it. The zero value is ready to use.
type Clock struct {
	now   time.Duration
	read  uint64 // the round of the last reading, plus 1
	count uint64 // the processor's counter at that reading
}

// moment is the advance of the processor's counter up to which Rough returns an old reading.
var moment = cpu.Moment()

// Now returns the time since the process started, as of the first call in this round. The
// caller numbers the rounds.
func (c *Clock) Now(round uint64) time.Duration {
	if c.read != round+1 {
		return c.Again(round)
	}
	return c.now
}

// Rough returns the time of Now, or the reading of an earlier round if it is at most some ten
// microseconds old. It is for callers that need the time for each message, and only to the
// millisecond. Reading a clock may cost as much as a message, and a hundred times that in a
// virtual machine without a good clock, where each reading exits to the hypervisor; reading the
// processor's counter costs almost nothing. Because some counters stop during sleep, the caller
// must call Forget after a sleep.
func (c *Clock) Rough(round uint64) time.Duration {
	if c.read == round+1 || !platform.Simulated && cpu.Counter()-c.count < moment {
		return c.now
	}
	return c.Again(round)
}

// Again reads the clock and returns the time, even if it was read in this round already. It is for
// a round in which the caller has waited.
func (c *Clock) Again(round uint64) time.Duration {
	c.now, c.read, c.count = monotonic(), round+1, cpu.Counter()
	return c.now
}

// Forget makes the next call of Now or Rough read the clock, whatever the processor's counter says.
func (c *Clock) Forget() { c.read, c.count = 0, cpu.Counter()-1<<63 }
