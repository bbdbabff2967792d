//go:build linux

package uverbs

import "github.com/ucx-go/ucx/internal/race"

var handover byte

// RaceSent notifies the race detector, which does not observe queues in mapped memory, that
// everything before it happens before the code after RaceReceived. The device of package verbstest
// has both sides of its queues in this process.
func RaceSent() { race.Release(&handover) }

// RaceReceived is the receiving side of RaceSent: what follows it happens after what preceded
// RaceSent.
func RaceReceived() { race.Acquire(&handover) }
