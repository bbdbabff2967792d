//go:build linux

package rc

import (
	"fmt"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// A device gives a peer up that does not acknowledge what it has sent to it so many times. Soft-RoCE
// counts what is lost on the way alike, and begins again only with an acknowledgement, which
// comes once in 64 packets (RXE_MAX_PKT_PER_ACK): of peers behind a network that loses five
// packets of a hundred it gives up one after another, unless it is told to go on for ever, as
// C UCX does (COMPST_ERROR_RETRY in drivers/infiniband/sw/rxe/rxe_comp.c takes 7 for that). Then
// nothing tells of a peer that is gone. So from a Check on it is looked now and then whether
// anything has been acknowledged, until all has. A peer that has no receives acknowledges nothing
// either and is there: it says so all the time, which the device counts, but of all its
// connections together. While that count rises nobody is given up who may lack receives.

// What soft-RoCE is told by, and what it has.
const (
	softRoCE      = "rxe"
	noEnd         = 7              // retries
	countNotReady = "rcvd_rnr_err" // in hw_counters of its port, of all connections
)

const (
	// slowest is what a put or get is granted for each of its bytes: nothing tells that it gets
	// on but its end, and at 5 % loss 300 to 600 kB pass in a second.
	slowest = time.Second / 100_000

	// notReadyAgain is time enough for a peer without receives to say so, which it does every
	// 655 ms at the least (IBA, RNR NAK timer).
	notReadyAgain = 700 * time.Millisecond
)

// overdue is what has been seen of an endpoint that has something under way.
type overdue struct {
	looks    int           // in a row that found nothing acknowledged; 0: nothing was under way
	since    time.Duration // the first of them
	last     time.Duration // the last
	done     uint32        // requests that were over
	emptied  uint32        // rounds in which all completions had been taken
	notReady uint64        // count of the device
}

// isOverdue reports whether the peer has to be given up: for three looks and as long as a device
// would have tried nothing was acknowledged, and nobody has said that he has no receives. If
// that cannot be known of a peer that may lack them, it is not given up.
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
	now, patience := i.Worker.Now(), i.patience()
	if patience == 0 || now-o.last < i.betweenLooks() || i.emptied == o.emptied {
		return false // at the last, what has been acknowledged may still be in the queue
	}
	patience += time.Duration(e.granted()) * slowest
	if e.awaits(e.receives) { // else nothing that is under way needs a receive
		notReady, known := i.Counter(countNotReady)
		if !known || o.looks > 1 && notReady != o.notReady {
			o.looks = 0
			return false
		}
		o.notReady = notReady
	}
	o.looks++
	o.last, o.emptied = now, i.emptied
	return o.looks > 2 && now-o.since >= patience
}

// look remembers what is under way, and will tell of its end, and has it looked at again.
func (e *endpoint) look() {
	i, o := e.iface, &e.overdue
	if o.looks == 0 && !e.lost() && e.hasSignaled() {
		now := i.Worker.Now()
		e.granted() // counts may be the same again after 2^31 requests, and are forgotten before
		if !e.awaits(e.receives) {
			e.receives = e.done
		}
		*o = overdue{looks: 1, since: now, last: now, done: e.done, emptied: i.emptied}
	}
	if o.looks > 0 && i.looking == nil && i.patience() > 0 {
		i.looking, _ = i.Worker.Timers().After(i.betweenLooks(), i.lookAgain)
	}
}

// lookAgain looks at all that have been looked at.
func (i *iface) lookAgain() {
	i.looking = nil
	for _, e := range i.eps {
		if e != nil && e.overdue.looks > 0 {
			e.judge()
		}
	}
}

// judge gives the peer up if it is overdue, and reports whether it is not.
func (e *endpoint) judge() bool {
	if e.isOverdue() {
		e.fail(fmt.Errorf("rc: sending to %v: nothing acknowledged: %w", &e.device, ucs.ErrEndpointTimeout))
		return false
	}
	e.look()
	return true
}

// betweenLooks is at least between two looks that count.
func (i *iface) betweenLooks() time.Duration { return max(i.patience()/3, notReadyAgain) }
