//go:build linux

package interop

import (
	"errors"
	"math"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// lineRoundTrip measures the round trip of a cache line between CPU 0 and CPU 1, the best of
// several tries. On a virtual machine it depends on where the host runs the two, and so do other
// results.
func lineRoundTrip() (time.Duration, error) {
	const tries, trips = 20, 2000
	var line struct {
		_    [64]byte
		turn atomic.Uint64 // odd: the other side's turn
		_    [64]byte
	}
	side := func(cpu int, run func()) <-chan error {
		pinned := make(chan error, 1)
		go func() {
			// The thread is bound to the CPU and never unlocked: it ends with the goroutine.
			runtime.LockOSThread()
			var set unix.CPUSet
			set.Set(cpu)
			err := unix.SchedSetaffinity(0, &set)
			run() // even if not bound: the other side waits for it
			pinned <- err
		}()
		return pinned
	}
	other := side(1, func() {
		for i := uint64(1); i < 2*tries*trips; i += 2 {
			for line.turn.Load() != i {
			}
			line.turn.Store(i + 1)
		}
	})
	best := time.Duration(math.MaxInt64)
	this := side(0, func() {
		turn := uint64(0)
		for range tries {
			start := time.Now()
			for range trips {
				line.turn.Store(turn + 1)
				turn += 2
				for line.turn.Load() != turn {
				}
			}
			best = min(best, time.Since(start)/trips)
		}
	})
	return best, errors.Join(<-other, <-this)
}
