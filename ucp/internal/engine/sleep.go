package engine

// Sleeps are on a descriptor that becomes readable when something happens to what the
// engine stands for, after it was armed. Two may be asleep: the leader, and the
// application, in a poller of its own.

// Host is what the engine stands for. Its methods run in the owner's turn.
type Host interface {
	// Arm prepares the descriptor. It reports whether there is something to do
	// already, which nothing would wake a sleeper for.
	Arm() (busy bool)

	// Rouse makes the leader's descriptor readable, until a round of progress, and
	// Ring the application's, until it comes back.
	Rouse()
	Ring()

	// Later signals the background waiter in a while.
	Later()
}

// Sleeps notes that the leader is about to sleep, having armed, or that it is awake.
func (e *Engine) Sleeps(asleep bool) { e.asleep = asleep } // [sleep]

// Armed notes that the application is, or that it is back.
func (e *Engine) Armed(armed bool) { e.armed = armed }

// Heard notes that the leader's descriptor is no longer readable for that it was roused:
// if it sleeps still it may have to be roused again.
func (e *Engine) Heard() { e.roused = false } // [hear]

// News notes that something has happened that those may wait for who wait for any event.
func (e *Engine) News() { e.news = true }

// Restless reports whether there is something for Settle to do.
func (e *Engine) Restless() bool { return e.news || e.asleep || e.armed }

// Tell tells them, those that sleep. It reports whether there was any.
func (e *Engine) Tell() bool { return e.news && e.tell() }

func (e *Engine) tell() bool {
	e.news, e.untold = false, true // [tell]
	e.tellings++
	if e.leader != nil || e.armed || e.waiting[Event].head != nil { // else nobody would hear it
		e.happened()
	}
	return true
}

// Untold reports whether there was any since it was asked last. It is for who is about to
// sleep: he was told of nothing that has happened between his last look and now.
func (e *Engine) Untold() bool {
	e.Tell()
	was := e.untold // [untold]
	e.untold = false
	return was
}

// Tellings counts the turns with news: a caller that keeps the number sees whether there were
// any since. It takes nothing away from callers of Untold. It is never 0.
func (e *Engine) Tellings() uint64 {
	e.Tell()
	return 1 + e.tellings
}

// Settle sees to those who sleep, at the end of a turn: what was done in it may need a
// round of progress, or events that were not armed; and another goroutine's
// progress may have taken away what was to wake the leader.
func (e *Engine) Settle() {
	e.Tell()
	if !e.asleep && !e.armed || e.closed { // [settle]
		return
	}
	if e.roused && !e.armed {
		return // it will look by itself
	}
	busy := e.host.Arm()
	if e.asleep && (busy || e.leader.Over()) {
		e.rouse()
	}
	if e.armed && busy {
		e.ring()
	}
}

func (e *Engine) rouse() {
	if !e.roused { // [rouse]
		e.roused = true
		e.host.Rouse()
	}
}

func (e *Engine) ring() {
	e.armed = false // [ring]
	e.host.Ring()
}

// Close ends all waits with an error, and settling: there is nothing to be armed.
func (e *Engine) Close(err error) {
	e.EndAll(err)
	if e.armed {
		e.ring()
	}
	e.closed = true
}
