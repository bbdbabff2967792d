package engine

// A worker may have a background waiter. It is the leader while no other goroutine waits, so that a
// process whose goroutines are busy still answers its peers. The background waiter is in no list of
// waiters. Another waiter that joins becomes the leader in its place without waking it: the
// background waiter may be asleep, and notices the change when it wakes. When the last other leader
// leaves, the background waiter becomes the leader again. If it is still asleep this happens at
// once, because only arming again is needed. Otherwise it happens after a period in which no other
// goroutine was the leader. So a goroutine that waits repeatedly wakes no other goroutine between
// two waits.

// displace makes w, a waiter that joins, the leader in place of the background waiter.
func (e *Engine) displace(w *Waiter) {
	e.background.leads, e.asleep = false, false // [displace]
	e.leader, w.leads = w, true
}

// handBack makes the background waiter the leader, now or later, if there is no other leader.
func (e *Engine) handBack() {
	b := e.background
	switch {
	case b == nil || b.Over():
	case e.backgroundAsleep:
		e.leader, b.leads, e.asleep = b, true, true // [reinstate]
	case !e.due:
		e.due, e.led = true, false // [later]
		e.host.Later()
	}
}

// Look is called by the background waiter w when it was signaled after Host.Later. It makes w the
// leader if there is no leader and no other goroutine has waited since Host.Later was called.
func (e *Engine) Look(w *Waiter) {
	e.due = false // [look in]
	switch {
	case e.leader != nil || w.Over():
	case e.led:
		e.handBack()
	default:
		e.leader, w.leads = w, true
	}
}

// BackgroundSleeps records that the background waiter, as the leader, has armed and is about to sleep. Until
// it calls Back it is asleep or about to take the engine, even if another goroutine has become the
// leader.
func (e *Engine) BackgroundSleeps() { e.asleep, e.backgroundAsleep = true, true } // [doze]

// BackgroundAwake records that the background waiter is awake. The waiter calls it as soon as it owns the
// engine after BackgroundSleeps.
func (e *Engine) BackgroundAwake(w *Waiter) {
	e.backgroundAsleep = false // [back]
	if w.leads {
		e.asleep = false
	}
}

// Signal wakes the waiter if it is parked. Any goroutine may call it.
func (w *Waiter) Signal() { w.signal() }
