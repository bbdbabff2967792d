//go:build race

package uverbs

// Soundness: the address of a variable of this package is a place for the race
// detector to remember who has met whom, nothing is read or written there.

import (
	"runtime"
	"unsafe"
)

var handover byte

// RaceSent and RaceReceived tell the race detector, which does not see queues in
// mapped memory, that what was done before the first is seen after the second: of
// a device without a kernel both ends are in this process.
func RaceSent()     { runtime.RaceReleaseMerge(unsafe.Pointer(&handover)) }
func RaceReceived() { runtime.RaceAcquire(unsafe.Pointer(&handover)) }
