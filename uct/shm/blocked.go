//go:build linux

package shm

import (
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/kit"
)

// A sender that waits for room in a ring is woken when there is room, if it has left a note
// with the ring's receiver (notes.go). A receiver of C UCX notifies no sender, and a sender of
// C UCX does not sleep while it waits for room. For rings of C UCX this library polls: it
// sleeps between two polls for as long as it has been blocked before, at most maxSleep. So a
// message that could be sent is late by no longer than it had been blocked already, and by no
// longer than maxSleep. A receiver that takes its messages steadily gives room back when half
// of the ring is free, and does not run out of messages meanwhile.
const (
	// pollTime is the time for which a blocked sender polls before it sleeps: a sleep would
	// take about as long.
	pollTime = 250 * time.Microsecond

	// checkAfter is the time between checks whether the peers that give no room are alive.
	checkAfter = time.Second
)

// roomWait is the state of an interface's wait while its pending requests wait for room.
type roomWait struct {
	moved bool          // a request was sent or began to wait, after the last call of rest
	since time.Duration // time at which the method rest last found moved set
	asked time.Duration // time of the last check whether the peers are alive
}

// rest returns how long the interface may sleep at most while requests wait for room. ok is false
// if the interface must not sleep, because one of the requests can be sent now or probably very
// soon.
func (i *iface) rest() (longest time.Duration, ok bool) {
	if i.waiting.Empty() {
		return longestSleep, true
	}
	b, now := &i.blocked, i.worker.Now()
	if b.moved {
		b.moved, b.since = false, now
	}
	blocked := now - b.since
	if blocked < pollTime {
		return 0, false
	}
	check := now-b.asked >= checkAfter
	if check {
		b.asked = now
	}
	longest = longestSleep
	ok = i.waiting.All(func(s kit.Sender) bool {
		e := s.(*endpoint)
		if !e.leaveNote() {
			longest = pollInterval(blocked)
		}
		return e.stuck(check)
	})
	return longest, ok
}

// pollInterval returns the poll interval of a sender that has been blocked for the given time and will
// not be notified of room.
func pollInterval(blocked time.Duration) time.Duration { return min(blocked, maxSleep) }

// stuck reports whether the ring of the endpoint's peer still has no room. If check is set, it also
// checks whether the peer is alive.
func (e *endpoint) stuck(check bool) bool {
	if check {
		e.checkPeer()
	}
	return !e.refusing && e.look() == ucs.ErrNoResource
}
