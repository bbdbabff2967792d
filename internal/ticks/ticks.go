package ticks

import (
	"sync"
	"time"
)

// origin is the start of the calibration.
var origin stamp

func init() { origin = reading() } // after the initialization of the variables that Now reads

// stamp is one moment, read from the tick counter and from the system's clock.
type stamp struct {
	ticks uint64
	time  time.Time
}

func reading() stamp {
	// Take the narrowest of a few pairs, because the goroutine may be interrupted between the two
	// clocks.
	var best stamp
	least := ^uint64(0)
	for range 5 {
		before := Now()
		t := time.Now()
		after := Now()
		if after-before < least {
			least = after - before
			best = stamp{before + (after-before)/2, t}
		}
	}
	return best
}

// calibration is the minimum time over which the frequency is measured. A longer time is more
// exact.
const calibration = 20 * time.Millisecond

// PerSecond returns the number of ticks in a second. If the CPU does not report it, it is measured
// over the time since the process started, which the first call extends to at least 20 ms.
var PerSecond = sync.OnceValue(func() float64 {
	if f := frequency(); f > 0 {
		return f
	}
	if wait := calibration - time.Since(origin.time); wait > 0 {
		time.Sleep(wait)
	}
	now := reading()
	return float64(now.ticks-origin.ticks) / now.time.Sub(origin.time).Seconds()
})

// Seconds converts ticks to seconds.
func Seconds(n uint64) float64 { return float64(n) / PerSecond() }

// FromSeconds converts seconds to ticks. Values out of range give the largest number.
func FromSeconds(s float64) uint64 {
	n := s * PerSecond()
	if n >= 1<<64 {
		return ^uint64(0)
	}
	return uint64(n)
}

// start is the origin of the monotonic clock's ticks.
var start = time.Now()

// monotonic reads the system's clock, in nanoseconds.
func monotonic() uint64 { return uint64(time.Since(start)) }
