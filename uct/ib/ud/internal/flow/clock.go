//go:build linux

package flow

// The clock stands still while nobody calls, lest a program that computes for a minute
// finds all its peers dead when it looks again: what is late beyond a tick is skipped.

// Clock tells the time, in nanoseconds since whenever; it never goes back. Whatever is
// called until the next Clock happens now.
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
			// Sent since the last round: the wait begins when it is noticed.
			e.sent = it.now
			e.due = it.now + e.every
			it.timers.push(e)
		}
	}
}

// Next is when Tick wants to be called, on the clock of Clock. It wants that only
// while packets are in flight.
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

// Soonest is a time before which Next would not say that Tick is wanted; ok is false if
// it wanted nothing. It looks at no clock.
func (it *Iface) Soonest() (due int64, ok bool) {
	switch {
	case it.fresh != nil:
		return it.now + it.skipped + it.tick, true
	case len(it.timers) != 0:
		return it.timers[0].due + it.skipped, true
	}
	return 0, false
}

// start makes the timer run from the next Clock on.
func (e *Endpoint) start() {
	if !e.fresh {
		it := e.it
		e.fresh = true
		e.nextFresh, it.fresh = it.fresh, e
	}
}
