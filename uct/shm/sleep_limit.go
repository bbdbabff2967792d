//go:build linux

package shm

import (
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs/event"
)

// Wakeups are datagrams, and an abstract address is known in its network
// namespace only: a peer in another one can write to our ring and not wake us.
// While there are endpoints to such peers a sleep ends by itself after a while,
// first a short one, then longer and longer ones until a message comes. Who has no
// endpoint to a peer does not know of it: the first message to a server, say, which
// makes one then. So no sleep lasts for ever.
const (
	minSleep     = 250 * time.Microsecond
	maxSleep     = 16 * time.Millisecond
	longestSleep = time.Second
)

// sleepLimit is how an interface sleeps that cannot count on wakeups.
type sleepLimit struct {
	unwakeable int // open endpoints to peers in other network namespaces
	timer      *event.Timer
	end        time.Duration // when it goes off, 0: it does not
	next       time.Duration
	read       uint64 // messages received before the last nap
	silent     bool   // that there is no timer was logged
}

// limitSleep lets the sleep that is about to begin end in time, which is last at the
// latest, and no later than it was to end if it has begun already: other goroutines may
// do something meanwhile that is no round. It is false where there is no timer: nothing
// may end the sleep.
func (i *iface) limitSleep(last time.Duration) bool {
	n := &i.sleeps
	if n.unwakeable > 0 {
		if n.read != i.rx.read || n.next == 0 {
			n.next, n.read = minSleep, i.rx.read
		}
		last = min(last, n.next)
	}
	end := i.worker.Now() + last
	if n.end != 0 && n.end <= end {
		return true
	}
	var err error
	if n.timer == nil {
		n.timer, err = i.worker.Timers().After(last, n.expired)
	} else {
		err = n.timer.Reset(last)
	}
	if err == nil {
		n.end = end
	} else if !n.silent {
		n.silent = true
		i.worker.Log().WarnOnce(i.domain.attr.Component, "a worker cannot sleep: without a timer it may miss messages and room for its own",
			zap.String("transport", i.domain.attr.Component), zap.Error(err))
	}
	return err == nil
}

// expired is told that a nap has lasted as long as it could.
func (n *sleepLimit) expired() {
	n.end = 0
	n.next = min(2*n.next, maxSleep)
}

// wakeableAgain is told that an endpoint to such a peer is closed.
func (i *iface) wakeableAgain() {
	n := &i.sleeps
	if n.unwakeable--; n.unwakeable == 0 && n.timer != nil {
		n.timer.Stop()
		n.end = 0
	}
}
