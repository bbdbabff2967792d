//go:build linux

package rc

import "time"

// A device gives a peer up that does not acknowledge what it has sent to it so many times. Soft-RoCE
// counts what is lost on the way alike, and begins again only with an acknowledgement, which
// comes once in 64 packets (RXE_MAX_PKT_PER_ACK): of peers behind a network that loses five
// packets of a hundred it gives up one after another, unless it is told to go on for ever, as
// C UCX does (COMPST_ERROR_RETRY in drivers/infiniband/sw/rxe/rxe_comp.c takes 7 for that). Then
// nothing tells of a peer that is gone. So Check looks whether anything has been acknowledged
// since it looked before. A peer that has no receives acknowledges nothing either and is there:
// it says so all the time, which the device counts.

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

	// betweenLooks is at least between two looks that count: a peer without receives has said
	// so meanwhile, which it does every 655 ms at the least (IBA, RNR NAK timer).
	betweenLooks = 700 * time.Millisecond
)

// overdue is what Check has seen of an endpoint that has something under way.
type overdue struct {
	looks    int           // in a row that found nothing acknowledged; 0: nothing was under way
	since    time.Duration // the first of them
	last     time.Duration // the last
	done     uint32        // requests that were over
	notReady uint64        // count of the device
}

// isOverdue reports whether the peer has to be given up: for three looks and as long as a device
// would have tried nothing was acknowledged, and nobody has said that he has no receives. If
// that cannot be known of a peer that may lack them, it is not given up.
func (e *endpoint) isOverdue() bool {
	o, i := &e.overdue, e.iface
	if e.outstanding() == 0 {
		e.longest = 0
	}
	if o.looks == 0 || e.lost() {
		return false
	}
	if o.done != e.done {
		o.looks = 0
		return false
	}
	now, patience := i.Worker.Now(), i.patience()
	if patience == 0 || now-o.last < max(patience/3, betweenLooks) {
		return false
	}
	patience += time.Duration(e.longest) * slowest
	if int32(e.receives-e.done) > 0 { // else nothing that is under way needs a receive
		notReady, known := i.Counter(countNotReady)
		if !known || o.looks > 1 && notReady != o.notReady {
			o.looks = 0
			return false
		}
		o.notReady = notReady
	}
	o.looks++
	o.last = now
	return o.looks > 2 && now-o.since >= patience
}

// look remembers what is under way behind a Check and will tell of its end.
func (e *endpoint) look() {
	if o := &e.overdue; o.looks == 0 && e.failed == nil && e.outstanding() > e.unsignaled {
		now := e.iface.Worker.Now()
		*o = overdue{looks: 1, since: now, last: now, done: e.done}
	}
}
