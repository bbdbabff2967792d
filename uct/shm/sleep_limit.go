//go:build linux

package shm

import (
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs/event"
)

// Wakeups are datagrams, and an abstract socket address is known only in its network namespace. A
// peer in another network namespace can write to the ring of this process but cannot wake it. While
// there are endpoints to such peers a sleep ends by itself after a poll interval, which starts
// short and doubles until a message comes. A receiver without an endpoint to a peer does not know
// of the peer: a server, for example, makes the endpoint only after the peer's first message. So no
// sleep is longer than longestSleep.
const (
	minSleep     = 250 * time.Microsecond
	maxSleep     = 16 * time.Millisecond
	longestSleep = time.Second
)

// sleepLimit bounds the sleeps of an interface, because some peers cannot send wakeups.
type sleepLimit struct {
	unwakeable int // open endpoints to peers in other network namespaces
	timer      *event.Timer
	end        time.Duration // time at which timer expires, 0: timer is not running
	next       time.Duration // next poll interval while unwakeable is not 0
	read       uint64        // number of messages received when the field next was last reset
	silent     bool          // the warning that there is no timer was logged
}

// limitSleep sets the timer that ends the sleep that is about to begin, after the time last or
// earlier. If the timer of a sleep that has begun already expires earlier, that timer stays: other
// goroutines may arm again during a sleep, without a round of progress. limitSleep returns false if
// there is no timer, because the sleep might then never end.
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
		i.worker.Log().WarnOnce(i.domain.attr.Component, "a worker cannot sleep: without a timer it may miss messages and free ring elements",
			zap.String("transport", i.domain.attr.Component), zap.Error(err))
	}
	return err == nil
}

// expired is called when the timer ends a sleep. It doubles the poll interval, up to maxSleep.
func (n *sleepLimit) expired() {
	n.end = 0
	n.next = min(2*n.next, maxSleep)
}

// wakeableAgain is called when an endpoint to a peer in another network namespace is closed.
func (i *iface) wakeableAgain() {
	n := &i.sleeps
	if n.unwakeable--; n.unwakeable == 0 && n.timer != nil {
		n.timer.Stop()
		n.end = 0
	}
}
