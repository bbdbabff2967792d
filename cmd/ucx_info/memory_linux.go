package main

import "golang.org/x/sys/unix"

// peakMemory is the most that the process has used so far, in bytes, -1 where that is
// unknown.
func peakMemory() int64 {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return -1
	}
	return int64(r.Maxrss) << 10
}
