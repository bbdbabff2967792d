//go:build race

package race

// Soundness: the detector only compares the pointers and reads nothing there.

import (
	"runtime"
	"unsafe"
)

// Enabled says that the program was built with the race detector.
const Enabled = true

// Release tells the detector that what this goroutine has done so far happens
// before what others do after an Acquire of the same place.
func Release(place *byte) { runtime.RaceReleaseMerge(unsafe.Pointer(place)) }

// Acquire is the other end of Release.
func Acquire(place *byte) { runtime.RaceAcquire(unsafe.Pointer(place)) }
