//go:build linux

package flow

// The clock of the state machine stands still while the application does not call, so that a
// program that computes for a minute does not find all its peers dead afterwards. The part of a
// delay that exceeds one tick is skipped.

// Clock sets the time, in nanoseconds since an arbitrary origin. The time never goes back. It is the
// time of all calls until the next Clock.
func (it *Iface) Clock(now int64) {
	t := now - it.skipped
	for len(it.timers) != 0 && it.timers[0].due <= t && it.timers[0].Idle() {
		it.timers.remove(it.timers[0])
	}
	if len(it.timers) != 0 {
		if late := t - it.timers[0].due - it.tick; late > 0 {
			it.skipped += late
			t -= late
		}
	}
	if t > it.now {
		it.now = t
	}
	for it.fresh != nil {
		e := it.fresh
		it.fresh, e.nextFresh, e.fresh = e.nextFresh, nil, false
		if !e.Idle() && e.slot == none {
			// The endpoint has sent since the last round: the wait for an answer begins now.
			e.sent = it.now
			e.due = it.now + e.every
			it.timers.push(e)
		}
	}
}

// Next sets the time, and returns the time at which Tick must be called, in the same units and from
// the same origin. wanted is true only while packets are in flight or a closed endpoint lingers.
func (it *Iface) Next(now int64) (due int64, wanted bool) {
	due, wanted = it.nextTimer(now)
	if end, lingers := it.expiry(); lingers && (!wanted || end+it.skipped < due) {
		return end + it.skipped, true
	}
	return due, wanted
}

// nextTimer does the same as Next, for packets in flight only.
func (it *Iface) nextTimer(now int64) (due int64, wanted bool) {
	it.Clock(now)
	for len(it.timers) != 0 && it.timers[0].Idle() {
		it.timers.remove(it.timers[0])
	}
	if len(it.timers) == 0 {
		return 0, false
	}
	return it.timers[0].due + it.skipped, true
}

// Soonest returns a lower bound of the time that Next would return; ok is false if Next would
// return no time. Soonest does not set the time.
func (it *Iface) Soonest() (due int64, ok bool) {
	switch {
	case it.fresh != nil:
		due, ok = it.now+it.tick, true
	case len(it.timers) != 0:
		due, ok = it.timers[0].due, true
	}
	if end, lingers := it.expiry(); lingers && (!ok || end < due) {
		due, ok = end, true
	}
	return due + it.skipped, ok
}

// expiry returns when the linger time of the closed endpoint ends that was closed first. ok is false
// if there is none, or if it must wait for its peer or for room in the queue.
func (it *Iface) expiry() (due int64, ok bool) {
	e := it.peers.closed.first
	if e == nil || !e.Idle() || e.owed&oweEnd != 0 {
		return 0, false
	}
	return e.since + it.linger, true
}

// start starts the endpoint's timer at the next Clock.
func (e *Endpoint) start() {
	if !e.fresh {
		it := e.it
		e.fresh = true
		e.nextFresh, it.fresh = it.fresh, e
	}
}
