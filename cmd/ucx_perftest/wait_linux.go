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
)

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
