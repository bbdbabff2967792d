//go:build linux

package uverbs

import "github.com/ucx-go/ucx/internal/race"

var handover byte

// RaceSent and RaceReceived tell the race detector, which does not see queues in
// mapped memory, that what was done before the first is seen after the second: of
// a device without a kernel both ends are in this process.
func RaceSent() { race.Release(&handover) }

// RaceReceived is the other end of RaceSent.
func RaceReceived() { race.Acquire(&handover) }
