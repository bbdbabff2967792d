package engine

// A worker may have a background waiter: one that leads while nobody else waits, so that
// peers are answered in a process that does something else. It is in no list of those who
// wait. Any other waiter that joins takes the lead from it, and does not wake it for that:
// it may be asleep, and finds out when it wakes. When the last other leader leaves, the
// background waiter gets the lead back: at once if it sleeps still, as all that takes is to
// arm again; else after a while in which nobody has led. So a goroutine that waits again
// and again, as most do, wakes no other one between two waits.

// displace takes the lead from the background waiter, for one that joins.
func (e *Engine) displace(w *Waiter) {
	e.background.leads, e.asleep = false, false // [displace]
	e.leader, w.leads = w, true
}

// handBack lets the background waiter lead, now or later, when nobody else does.
func (e *Engine) handBack() {
	b := e.background
	switch {
	case b == nil || b.Over():
	case e.dozing:
		e.leader, b.leads, e.asleep = b, true, true // [reinstate]
	case !e.due:
		e.due, e.led = true, false // [later]
		e.host.Later()
	}
}

// Look is what a background waiter does in its turn when it was signaled: it leads if
// nobody does, and nobody has for a while.
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

// Dozes is Sleeps(true) for the background waiter as the leader. Until it calls Back it
// sleeps, or is about to take a turn, whoever leads.
func (e *Engine) Dozes() { e.asleep, e.dozing = true, true } // [doze]

// Back notes that the background waiter is awake, in its first turn after Dozes.
func (e *Engine) Back(w *Waiter) {
	e.dozing = false // [back]
	if w.leads {
		e.asleep = false
	}
}

// Signal wakes the waiter if it parks. Any goroutine may call it.
func (w *Waiter) Signal() { w.signal() }
