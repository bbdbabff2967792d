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
// the same origin. wanted is true only while packets are in flight.
func (it *Iface) Next(now int64) (due int64, wanted bool) {
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
		return it.now + it.skipped + it.tick, true
	case len(it.timers) != 0:
		return it.timers[0].due + it.skipped, true
	}
	return 0, false
}

// start starts the endpoint's timer at the next Clock.
func (e *Endpoint) start() {
	if !e.fresh {
		it := e.it
		e.fresh = true
		e.nextFresh, it.fresh = it.fresh, e
	}
}
