package main

import (
	"runtime"

	"github.com/ucx-go/ucx/cmd/internal/ticks"
	"github.com/ucx-go/ucx/internal/sys"
)

// What happens in rounds of progress that find nothing to do. C's tool goes on
// at full speed for ever; on a machine with fewer free CPUs than processes that
// keeps the other side from running, and each message takes a time slice.
const (
	spinRounds  = 512     // rounds after which others may run
	spinTime    = 40e-6   // and seconds: longer than it takes to empty half a ring
	yieldRounds = 32      // rounds between times that they do: asking the system may cost more than a round
	checkRounds = 1 << 10 // rounds between looks whether the other side is there

	// soleYields are the times that other processes may run between times that other
	// goroutines may, where a test has one. Those have little to do then, while to let
	// them run wakes a thread, which takes the CPU that the other side runs on.
	soleYields = 64

	// turnTime is the seconds after which a thread lets other goroutines run even if it is
	// not waiting. Whoever has run for 10 ms is sent a signal that makes it do so
	// (forcePreemptNS in runtime/proc.go), which costs much more, most of all in an emulated
	// machine, whose caches it empties.
	turnTime = 5e-3

	turnRounds = 16 // rounds of work between looks whether that time has come
)

// takeTurns lets other goroutines run if it has come to be time for them.
func (c *counter) takeTurns(now uint64) {
	if now >= c.turnBy {
		c.endTurn(now)
	}
}

//go:noinline
func (c *counter) endTurn(now uint64) {
	runtime.Gosched()
	c.turnBy = now + c.turn
}

// worked is told of rounds that did something, and may take as long as an iteration.
func (c *counter) worked() {
	if c.rounds++; c.rounds%turnRounds == 0 {
		c.takeTurns(ticks.Now())
	}
}

// giveWay lets other goroutines and other processes run, if any wants to, unless
// the last iteration is not long ago.
func (c *counter) giveWay() {
	if c.late != c.now {
		if ticks.Now()-c.now < c.spin {
			return
		}
		c.late = c.now // nor is the clock asked again
	}
	if c.yields++; !c.sole || c.yields%soleYields == 0 {
		runtime.Gosched()
	}
	sys.Yield()
}
