//go:build linux

package rc

import (
	"fmt"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// A device reports a peer as gone after a number of retries without an acknowledgment.
// Soft-RoCE counts packets that are lost on the way as well, and resets its count only with an
// acknowledgment, which comes once in 64 packets (RXE_MAX_PKT_PER_ACK). If the network loses five
// packets of a hundred, soft-RoCE gives up one peer after another, unless it is configured to
// retry forever, as C UCX does (COMPST_ERROR_RETRY in drivers/infiniband/sw/rxe/rxe_comp.c
// takes 7 for that). Then nothing reports that a peer is gone. So after a Check this package
// looks at intervals whether anything has been acknowledged, until everything has.
//
// A peer that has no receives posted acknowledges nothing either, but is alive: it keeps
// sending RNR NAKs. The device counts those, but for all its connections together. While that
// count rises, no peer that may lack receives is given up.

// Name and constants of the driver of soft-RoCE.
const (
	softRoCE      = "rxe"
	noEnd         = 7              // the retry count that means forever
	countNotReady = "rcvd_rnr_err" // in hw_counters of the port; RNR NAKs of all its connections together
)

const (
	// slowest is the time that a put or get is allowed for each of its bytes. Only the end of a
	// put or get shows that it progresses, and at 5 % loss 300 to 600 kB pass in a second.
	slowest = time.Second / 100_000

	// notReadyAgain is long enough for a peer without receives to send another RNR NAK, which it
	// does at least once in 655 ms (IBA, RNR NAK timer).
	notReadyAgain = 700 * time.Millisecond
)

// overdue holds what was observed of an endpoint with requests in flight.
type overdue struct {
	looks    int           // successive looks with nothing acknowledged; 0: nothing was in flight
	since    time.Duration // time of the first of those looks
	last     time.Duration // time of the last one
	done     uint32        // endpoint.done at the first look
	emptied  uint32        // iface.emptied at the last look
	notReady uint64        // the device's count of RNR NAKs at the last look
}

// isOverdue reports whether the peer must be given up. It must if in three looks, and for as long
// as a device would have retried, nothing was acknowledged, and, if the peer may lack receives, no
// RNR NAK was counted. A peer that may lack receives is not given up if the count of RNR NAKs is
// not available.
func (e *endpoint) isOverdue() bool {
	o, i := &e.overdue, e.iface
	if e.lost() {
		o.looks = 0
	}
	if o.looks == 0 {
		return false
	}
	if o.done != e.done {
		o.looks = 0
		return false
	}
	now, timeout := i.Worker.Now(), i.lossTimeout()
	if timeout == 0 || now-o.last < i.betweenLooks() || i.emptied == o.emptied {
		return false // in the last case acknowledged requests may still have completions in the queue
	}
	timeout += time.Duration(e.longestInFlight()) * slowest
	if e.awaits(e.receives) { // otherwise nothing in flight needs a receive
		notReady, known := i.Counter(countNotReady)
		if !known || o.looks > 1 && notReady != o.notReady {
			o.looks = 0
			return false
		}
		o.notReady = notReady
	}
	o.looks++
	o.last, o.emptied = now, i.emptied
	return o.looks > 2 && now-o.since >= timeout
}

// look records the state of the endpoint if a signaled request is in flight, and starts the
// timer for the next look.
func (e *endpoint) look() {
	i, o := e.iface, &e.overdue
	if o.looks == 0 && !e.lost() && e.hasSignaled() {
		now := i.Worker.Now()
		e.longestInFlight() // drops complete ones: after 2^31 more requests they would seem to be in flight
		if !e.awaits(e.receives) {
			e.receives = e.done
		}
		*o = overdue{looks: 1, since: now, last: now, done: e.done, emptied: i.emptied}
	}
	if o.looks > 0 && i.looking == nil && i.lossTimeout() > 0 {
		i.looking, _ = i.Worker.Timers().After(i.betweenLooks(), i.lookAgain)
	}
}

// lookAgain looks again at all endpoints that are being watched.
func (i *iface) lookAgain() {
	i.looking = nil
	for _, e := range i.eps {
		if e != nil && e.overdue.looks > 0 {
			e.checkOverdue()
		}
	}
}

// checkOverdue fails the endpoint if its peer is overdue. Otherwise it calls look, and returns true.
func (e *endpoint) checkOverdue() bool {
	if e.isOverdue() {
		e.fail(fmt.Errorf("rc: sending to %v: nothing acknowledged: %w", &e.device, ucs.ErrEndpointTimeout))
		return false
	}
	e.look()
	return true
}

// betweenLooks is the least time between two looks that count.
func (i *iface) betweenLooks() time.Duration { return max(i.lossTimeout()/3, notReadyAgain) }
