package main

import "golang.org/x/sys/unix"

// peakMemory returns the peak memory of the process in bytes, -1 if it is unknown.
func peakMemory() int64 {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return -1
	}
	return int64(r.Maxrss) << 10
}
