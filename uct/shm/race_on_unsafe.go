//go:build race

package shm

// Soundness: the pointers name a package variable and are only compared by the
// race detector.

import (
	"runtime"
	"unsafe"
)

// The race detector does not watch shared memory. Where messages are handed over
// it is told, as if all rings were one: two goroutines of one process that talk
// through a ring synchronise by it.
var handover byte

func raceSent()     { runtime.RaceReleaseMerge(unsafe.Pointer(&handover)) }
func raceReceived() { runtime.RaceAcquire(unsafe.Pointer(&handover)) }
