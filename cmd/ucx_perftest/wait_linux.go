package main

import (
	"runtime"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/internal/ticks"
)

// Behavior of waits that find nothing to do. C's tool polls at full speed forever; on a machine
// with fewer free CPUs than processes that keeps the other side from running, and each message
// takes a time slice.
const (
	spinRounds  = 512     // rounds after which other goroutines and processes may run
	spinTime    = 40e-6   // and seconds after which they may, which is longer than emptying half a ring takes
	yieldRounds = 32      // rounds between yields, because a system call may cost more than a round
	checkRounds = 1 << 10 // rounds between checks that the other side is alive

	// soleYields is the number of yields to other processes for one yield to other goroutines, in a
	// test with one thread. Other goroutines have little to do then, and yielding to them wakes a
	// thread, which takes the CPU on which the other side runs.
	soleYields = 64

	// yieldAfter is the time in seconds after which a thread yields to other goroutines even if it is
	// not waiting. The runtime preempts a goroutine that has run for 10 ms with a signal
	// (forcePreemptNS in runtime/proc.go), which costs much more, especially in an emulated
	// machine, whose caches it empties.
	yieldAfter = 5e-3

	yieldCheckRounds = 16 // rounds of work between checks of that time
)

// yieldIfDue yields to other goroutines if this one has run for yieldAfter since it last yielded.
func (c *counter) yieldIfDue(now uint64) {
	if now >= c.yieldAt {
		c.yieldNow(now)
	}
}

//go:noinline
func (c *counter) yieldNow(now uint64) {
	runtime.Gosched()
	c.yieldAt = now + c.yieldTicks
}

// worked counts rounds that did work, each of which may take as long as an iteration.
func (c *counter) worked() {
	if c.rounds++; c.rounds%yieldCheckRounds == 0 {
		c.yieldIfDue(ticks.Now())
	}
}

// giveWay yields to other goroutines and other processes, unless the last iteration is recent.
func (c *counter) giveWay() {
	if c.late != c.now {
		if ticks.Now()-c.now < c.spin {
			return
		}
		c.late = c.now // also skips the clock in later rounds
	}
	if c.yields++; !c.sole || c.yields%soleYields == 0 {
		runtime.Gosched()
	}
	sys.Yield()
}
