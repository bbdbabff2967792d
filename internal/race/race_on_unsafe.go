//go:build race

package race

// Soundness: the detector only compares the pointers and reads nothing there.

import (
	"runtime"
	"unsafe"
)

// Enabled says whether the program was built with the race detector.
const Enabled = true

// Release tells the detector that the past accesses of this goroutine happen before the accesses of
// other goroutines after an Acquire with the same address.
func Release(place *byte) { runtime.RaceReleaseMerge(unsafe.Pointer(place)) }

// Acquire is the counterpart of Release.
func Acquire(place *byte) { runtime.RaceAcquire(unsafe.Pointer(place)) }
