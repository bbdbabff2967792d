package main

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// What happens in rounds of progress that find nothing to do. C's tool goes on
// at full speed for ever; on a machine with fewer free CPUs than processes that
// keeps the other side from running, and each message takes a time slice.
const (
	spinRounds  = 1 << 12 // rounds after which others may run: longer than it takes to empty a ring
	checkRounds = 1 << 10 // rounds between looks whether the other side is there
)

// giveWay lets other goroutines and other processes run, if any wants to.
func giveWay() {
	runtime.Gosched()
	unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
