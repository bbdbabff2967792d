//go:build linux

package verbstest

import (
	"math"
	"time"

	"github.com/ucx-go/ucx/internal/ib/uverbs"
)

// Whose turn it is. A queue pair whose bell has rung gets into the line of those that
// are ready, does one work request when its turn comes, and gets behind the others if
// there are more. One that cannot go on, for want of a receive or of a peer, is set
// aside until the next run; so each run tries it once.

// scheduler is who is to do something. Lock held, as for all here.
type scheduler struct {
	ready line
	aside line
	work  Work
	wake  chan struct{} // of who works behind, room for one
}

// ring is the doorbell of a queue pair.
func (n *Fabric) ring(q *qp) {
	switch n.sched.work {
	case InBell:
		if q.in == nil {
			n.sched.ready.add(q)
		}
		n.run()
	case behind:
		n.call()
	case serving:
		if q.in == nil {
			n.sched.ready.add(q)
		}
		n.serveRing()
	}
}

// kick has what waits looked at again, since something has changed.
func (n *Fabric) kick() {
	switch n.sched.work {
	case InBell:
		n.look()
		n.run()
	case behind:
		n.call()
	case serving:
		n.look()
		n.serveRing()
	}
}

// call wakes who works behind.
func (n *Fabric) call() {
	select {
	case n.sched.wake <- struct{}{}:
	default: // it has not got up yet
	}
}

// attendTo has the goroutine look whether there are doorbells now.
func (n *Fabric) attendTo() {
	if n.sched.work == serving {
		n.call()
	}
}

// serveRing does what a call has asked for.
func (n *Fabric) serveRing() {
	n.loop(math.MaxInt, nil)
	if n.sched.aside.first != nil {
		n.call() // for the timers
	}
}

// look finds the work requests that no bell has told of, and bells that nobody has told
// of, and reports whether there were any of these.
func (n *Fabric) look() (rung bool) {
	for _, k := range n.kernels {
		rung = k.listen() || rung
		for _, q := range k.order {
			if q.in == nil && q.sq.waiting() {
				n.sched.ready.add(q)
			}
		}
	}
	return rung
}

// step does up to most work requests, of one device or of all, and lets time pass if
// there are none.
func (n *Fabric) step(most int, of *Kernel) int {
	n.look()
	n.retry(of)
	tried, done := n.loop(most, of)
	if tried == 0 && most > 0 {
		n.faults.passed++
		_, done = n.loop(most, of)
	}
	return done
}

// run does what can be done of those who are ready, and tries those again that were
// set aside.
func (n *Fabric) run() {
	n.retry(nil)
	n.loop(math.MaxInt, nil)
}

// retry has those tried again who were set aside.
func (n *Fabric) retry(of *Kernel) {
	uverbs.RaceReceived()
	n.resume(func(q *qp) bool { return of == nil || q.f.k == of })
}

// loop does what can be done of those who are ready, and of those whose messages are
// not held any longer, up to most work requests. It returns how many were tried, and
// how many have come to an end.
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
		switch q.turn() {
		case wcSuccess:
			done++
			tried++
		case again:
			tried++
		}
	}
}

// next is whose turn it is, of one device or of all; nil for nobody's.
func (s *scheduler) next(of *Kernel) *qp {
	q := s.ready.first
	for q != nil && of != nil && q.f.k != of {
		q = q.next
	}
	return q
}

// resume gets those of a kind into the line who were set aside, and reports whether
// there was any.
func (n *Fabric) resume(of func(*qp) bool) (any bool) {
	for q := n.sched.aside.first; q != nil; {
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

// turn does the next work request of a queue pair, if it is to do any. It returns wait
// if none was done, again if one is to be tried again, and wcSuccess if one has come to
// an end, whichever.
func (q *qp) turn() uint32 {
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
	w := &q.f.k.net.desk.send
	w.clear()
	q.later = time.Time{}
	q.sq.read(w)
	status := q.execute(w)
	switch status {
	case wait:
		q.await()
		s.aside.add(q)
		return wait
	case again:
		s.ready.add(q)
		return again
	}
	if q.attr.QpState == stateErr {
		return wcSuccess // connected to itself, it has refused its own request and flushed it
	}
	q.retries, q.rnr, q.trip = 0, 0, trip{}
	q.complete(w, status)
	if status != wcSuccess {
		q.fail()
	} else if q.sq.waiting() {
		s.ready.add(q)
	}
	return wcSuccess
}
