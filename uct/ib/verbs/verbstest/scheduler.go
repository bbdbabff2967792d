//go:build linux

package verbstest

import "github.com/ucx-go/ucx/internal/ib/uverbs"

// Whose turn it is. A queue pair whose bell has rung gets into the line of those that
// are ready, does one work request when its turn comes, and gets behind the others if
// there are more. One that cannot go on, for want of a receive or of a peer, is set
// aside until the next run; so each run tries it once.

// scheduler is who is to do something. Lock held, as for all here.
type scheduler struct {
	ready line
	aside line
}

// ring is the doorbell of a queue pair.
func (n *Fabric) ring(q *qp) {
	if q.in == nil {
		n.sched.ready.add(q)
	}
	n.run()
}

// kick has what waits looked at again, since something has changed.
func (n *Fabric) kick() { n.runAll() }

// runAll does all work requests that can be done, also those that no bell has told of.
func (n *Fabric) runAll() int {
	for _, k := range n.kernels {
		for _, q := range k.order {
			if q.in == nil && q.sq.waiting() > 0 {
				n.sched.ready.add(q)
			}
		}
	}
	return n.run()
}

// run does what can be done of those who are ready, and tries those again that were
// set aside. It returns how many work requests have come to an end.
func (n *Fabric) run() int {
	uverbs.RaceReceived()
	n.resume(func(*qp) bool { return true })
	return n.loop()
}

// loop does what can be done of those who are ready, and of those whose messages are
// not held any longer.
func (n *Fabric) loop() (done int) {
	for {
		n.faults.arrivals()
		if n.sched.ready.first == nil && !n.resume((*qp).due) {
			return done
		}
		q := n.sched.ready.first
		q.leave()
		if q.turn() {
			done++
		}
	}
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

// turn does the next work request of a queue pair, if it is to do any, and reports
// whether one has come to an end.
func (q *qp) turn() bool {
	if q.sq.waiting() == 0 {
		return false
	}
	s := &q.f.k.net.sched
	switch q.attr.QpState {
	case stateErr:
		q.fail()
		return true
	case stateRTS:
	default:
		return false
	}
	w := q.request()
	status := q.execute(w)
	switch status {
	case wait:
		s.aside.add(q)
		return false
	case again:
		s.ready.add(q)
		return false
	}
	if q.attr.QpState == stateErr {
		return true // connected to itself, it has refused its own request and flushed it
	}
	q.retries, q.rnr, q.trip = 0, 0, trip{}
	q.complete(w, status)
	if status != wcSuccess {
		q.fail()
	} else if q.sq.waiting() > 0 {
		s.ready.add(q)
	}
	return true
}
