//go:build linux

package main

import (
	"os"
	"runtime"
)

// narrow leaves the Go scheduler no more processors than there are threads, until
// widen is called. With one to spare each goroutine that lets others run has another
// thread woken to look for them (wakep in runtime/proc.go), which takes the CPU from the other
// side of the test. Who sets GOMAXPROCS has it.
func narrow(threads int) (widen func()) {
	if os.Getenv("GOMAXPROCS") != "" || threads >= runtime.GOMAXPROCS(0) {
		return func() {}
	}
	was := runtime.GOMAXPROCS(threads)
	return func() { runtime.GOMAXPROCS(was) }
}
