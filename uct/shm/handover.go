//go:build linux

package shm

import "github.com/ucx-go/ucx/internal/race"

// handover stands for all rings in the race detector, which does not watch shared memory.
// Sending a message is a release of handover and receiving one is an acquire, because two
// goroutines of one process that exchange messages through a ring synchronise by the ring.
var handover byte

func raceSent()     { race.Release(&handover) }
func raceReceived() { race.Acquire(&handover) }
