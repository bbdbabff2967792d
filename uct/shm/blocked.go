//go:build linux

package shm

import (
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// Who waits for room in a ring is told when there is some, if he has left a note with
// its receiver (notes.go). A receiver of C UCX tells nobody, and C does not sleep while it
// waits for that: there we look, and sleep between looks for as long as nothing has moved
// before. So a message that could go is late by no longer than it had been blocked
// already, and than maxSleep. A receiver that takes its messages steadily gives room
// back when half of the ring is free, and does not run out of messages meanwhile.
const (
	// patience is how long a blocked sender does not sleep, which would take about as
	// long.
	patience = 250 * time.Microsecond

	// checkAfter is how often it is asked whether the peers that give no room live.
	checkAfter = time.Second
)

// blockade is what an interface with requests that wait for room knows of the wait.
type blockade struct {
	moved bool          // one of them did, or came, since the last look
	since time.Duration // when that was seen
	asked time.Duration // when it was asked last whether the peers live
}

// rest says for how long the interface may sleep at most, as far as requests go that
// wait for room. It is false when one of them may go on, or is likely to before the
// sleep has begun.
func (i *iface) rest() (longest time.Duration, ok bool) {
	if i.waiting.Empty() {
		return longestSleep, true
	}
	b, now := &i.blocked, i.worker.Now()
	if b.moved {
		b.moved, b.since = false, now
	}
	blocked := now - b.since
	if blocked < patience {
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
			longest = nap(blocked)
		}
		return e.stuck(check)
	})
	return longest, ok
}

// nap is how long a sender sleeps that has been blocked for so long and will not be told
// of room.
func nap(blocked time.Duration) time.Duration { return min(blocked, maxSleep) }

// stuck reports whether the endpoint still has no room. With check the peer is asked
// about as well.
func (e *endpoint) stuck(check bool) bool {
	if check {
		e.checkPeer()
	}
	return !e.refusing && e.look() == ucs.ErrNoResource
}
