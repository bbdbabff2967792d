//go:build linux

package main

import (
	"os"
	"runtime"
)

// narrow limits the Go scheduler to as many processors as there are threads, until widen is called.
// With an idle processor, each goroutine that yields makes the runtime wake another thread to look
// for work (wakep in runtime/proc.go), which takes the CPU from the other side of the test. narrow
// does nothing if the user has set GOMAXPROCS.
func narrow(threads int) (widen func()) {
	if os.Getenv("GOMAXPROCS") != "" || threads >= runtime.GOMAXPROCS(0) {
		return func() {}
	}
	was := runtime.GOMAXPROCS(threads)
	return func() { runtime.GOMAXPROCS(was) }
}
