//go:build linux

package verbstest

import (
	"math"
	"time"

	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// Scheduling of queue pairs. A queue pair whose doorbell has rung joins the list ready. The first
// queue pair of the list executes one work request, and joins the end of the list again if it has
// more. A queue pair that cannot continue, because a receive or the peer is missing, is put into
// the list aside until the next run. So each run tries it once.

// scheduler has the queue pairs that have work requests. Fabric.mu guards it; the functions of this
// file are called with it held.
type scheduler struct {
	ready   qpList
	waiting qpList
	work    Work
	wake    chan struct{} // wakes the goroutine of Run or Serve; room for one
}

// ring handles the doorbell of a queue pair according to the mode of the network (Work).
func (n *Fabric) ring(q *qp) {
	switch n.sched.work {
	case InBell:
		if q.list == nil {
			n.sched.ready.add(q)
		}
		n.run()
	case behind:
		n.wakeWorker()
	case serving:
		if q.list == nil {
			n.sched.ready.add(q)
		}
		n.serveRing()
	}
}

// retryWaiting retries waiting work requests after a change that may let them continue.
func (n *Fabric) retryWaiting() {
	switch n.sched.work {
	case InBell:
		n.look()
		n.run()
	case behind:
		n.wakeWorker()
	case serving:
		n.look()
		n.serveRing()
	}
}

// wakeWorker wakes the goroutine of Run or Serve.
func (n *Fabric) wakeWorker() {
	select {
	case n.sched.wake <- struct{}{}:
	default: // it has already been woken
	}
}

// wakeServe makes the goroutine of Serve check whether there are now doorbells to poll.
func (n *Fabric) wakeServe() {
	if n.sched.work == serving {
		n.wakeWorker()
	}
}

// serveRing executes what the doorbells or a change have made ready.
func (n *Fabric) serveRing() {
	n.loop(math.MaxInt, nil)
	if n.sched.waiting.first != nil {
		n.wakeWorker() // for the timers
	}
}

// look makes ready the queue pairs that have work requests without a doorbell, and polls for
// doorbells in memory. It reports whether there were doorbells.
func (n *Fabric) look() (rung bool) {
	for _, k := range n.kernels {
		rung = k.pollDoorbells() || rung
		for _, q := range k.order {
			if q.list == nil && q.sq.waiting() {
				n.sched.ready.add(q)
			}
		}
	}
	return rung
}

// step executes up to most work requests of one device, or of all if the parameter of is nil, and
// returns how many have ended. If there are none, it advances the clock of held messages.
func (n *Fabric) step(most int, of *Kernel) int {
	n.look()
	n.retry(of)
	tried, done := n.loop(most, of)
	if tried == 0 && most > 0 {
		n.faults.clock++
		_, done = n.loop(most, of)
	}
	return done
}

// run retries the queue pairs that were set aside, and executes all that is ready.
func (n *Fabric) run() {
	n.retry(nil)
	n.loop(math.MaxInt, nil)
}

// retry makes the queue pairs ready that were set aside, those of one device, or all if the
// parameter of is nil.
func (n *Fabric) retry(of *Kernel) {
	uverbs.RaceReceived()
	n.resume(func(q *qp) bool { return of == nil || q.f.k == of })
}

// loop executes up to most work requests of the ready queue pairs and of those whose held messages
// are due. It returns how many were tried, and how many ended.
func (n *Fabric) loop(most int, of *Kernel) (tried, done int) {
	for {
		n.faults.arrivals()
		if tried >= most {
			return tried, done
		}
		q := n.sched.next(of)
		if q == nil && n.resume((*qp).due) {
			q = n.sched.next(of)
		}
		if q == nil {
			return tried, done
		}
		q.leave()
		switch q.executeNext() {
		case wcSuccess:
			done++
			tried++
		case again:
			tried++
		}
	}
}

// next returns the first ready queue pair of one device, or of all if the parameter of is nil. It
// returns nil if there is none.
func (s *scheduler) next(of *Kernel) *qp {
	q := s.ready.first
	for q != nil && of != nil && q.f.k != of {
		q = q.next
	}
	return q
}

// resume makes ready the queue pairs that were set aside and for which the parameter of returns
// true. It reports whether there were any.
func (n *Fabric) resume(of func(*qp) bool) (any bool) {
	for q := n.sched.waiting.first; q != nil; {
		next := q.next
		if of(q) {
			q.leave()
			n.sched.ready.add(q)
			any = true
		}
		q = next
	}
	return any
}

// executeNext executes the next work request of a queue pair, if its state allows that. It returns wait if
// none was executed, again if the request is retried at once, and wcSuccess if one has ended, with
// any status.
func (q *qp) executeNext() uint32 {
	if !q.sq.waiting() {
		return wait
	}
	s := &q.f.k.net.sched
	switch q.attr.QpState {
	case stateErr:
		q.fail()
		return wcSuccess
	case stateRTS:
	default:
		return wait
	}
	w := &q.f.k.net.scratch.send
	w.clear()
	q.later = time.Time{}
	q.sq.read(w)
	status := q.execute(w)
	switch status {
	case wait:
		q.await()
		s.waiting.add(q)
		return wait
	case again:
		s.ready.add(q)
		return again
	}
	if q.attr.QpState == stateErr {
		return wcSuccess // connected to itself, the queue pair has refused its own request and flushed it
	}
	q.retries, q.rnr, q.sendState = 0, 0, sendState{}
	q.complete(w, status)
	if status != wcSuccess {
		q.fail()
	} else if q.sq.waiting() {
		s.ready.add(q)
	}
	return wcSuccess
}

// qpList is a linked list of queue pairs, from which the scheduler takes them in order. A queue pair
// is in at most one list.
type qpList struct{ first, last *qp }

func (l *qpList) add(q *qp) {
	q.list = l
	if l.last == nil {
		l.first = q
	} else {
		l.last.next = q
	}
	q.prev, q.next, l.last = l.last, nil, q
}

// leave removes q from its list, if it is in one.
func (q *qp) leave() {
	l := q.list
	if l == nil {
		return
	}
	if q.prev == nil {
		l.first = q.next
	} else {
		q.prev.next = q.next
	}
	if q.next == nil {
		l.last = q.prev
	} else {
		q.next.prev = q.prev
	}
	q.list, q.prev, q.next = nil, nil, nil
}

// Retry times of waiting work requests under Serve.

// postpone sets the retry time of a queue pair's request after a failed try: the RNR timer of the
// receiver if status is wcRNRRetryExc, else the transport timeout (InfiniBand Architecture
// Specification 9.7.5.2.8 and 9.7.6.1.3).
func (q *qp) postpone(status uint32) {
	if q.f.k.net.sched.work != serving {
		return
	}
	d := 4096 * time.Nanosecond << (q.attr.Timeout & 31)
	if q.attr.Timeout == 0 {
		d = time.Second
	}
	if status == wcRNRRetryExc {
		d = rnrTimers[q.attr.MinRnrTimer&31]
	}
	q.later = time.Now().Add(d)
}

// await sets a retry time for a request that waits without a failed try.
func (q *qp) await() {
	if q.f.k.net.sched.work == serving && q.later.IsZero() {
		q.later = time.Now().Add(longest)
	}
}

// rnrTimers are the RNR timers by their encoding; InfiniBand Architecture Specification table 45.
var rnrTimers = func() (t [32]time.Duration) {
	const unit = 10 * time.Microsecond
	for i, n := range [32]time.Duration{
		65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
		1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
	} {
		t[i] = n * unit
	}
	return t
}()
