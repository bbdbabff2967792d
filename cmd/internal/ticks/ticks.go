package ticks

import (
	"sync"
	"time"
)

// origin is where calibration starts.
var origin stamp

func init() { origin = reading() } // after the variables that Now looks at

// stamp is one moment on both clocks.
type stamp struct {
	ticks uint64
	time  time.Time
}

func reading() stamp {
	// The narrowest of a few pairs: the goroutine may be interrupted between
	// the two clocks.
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

// calibration is the time it takes to measure the frequency: the longer, the
// more exact.
const calibration = 20 * time.Millisecond

// PerSecond returns the number of ticks in a second. Where the CPU does not
// tell, it is measured over the time since the process started, which the first
// call extends to at least 20 ms.
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

// Seconds converts a number of ticks.
func Seconds(n uint64) float64 { return float64(n) / PerSecond() }

// FromSeconds converts seconds to ticks. What does not fit gives the largest
// number.
func FromSeconds(s float64) uint64 {
	n := s * PerSecond()
	if n >= 1<<64 {
		return ^uint64(0)
	}
	return uint64(n)
}

// start is the zero of the monotonic clock's ticks.
var start = time.Now()

// monotonic reads the system's clock, in nanoseconds.
func monotonic() uint64 { return uint64(time.Since(start)) }
