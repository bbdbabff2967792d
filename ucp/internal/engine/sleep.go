package engine

// A sleeper sleeps on a descriptor, which is armed first and becomes readable when something
// happens on the host. There are up to two sleepers: the leader, and the application in its poller.

// Host is the object that the engine gives to one goroutine at a time. Its methods are called by
// the owner.
type Host interface {
	// Arm prepares the descriptor. It reports whether there is already something to do, for
	// which the descriptor would not wake a sleeper.
	Arm() (busy bool)

	// Rouse makes the leader's descriptor readable until the next round of progress.
	Rouse()

	// Ring makes the application's descriptor readable until the application has returned from
	// its poller.
	Ring()

	// Later starts a delay after which the background waiter is signaled.
	Later()
}

// Sleeps records that the leader has armed its descriptor and is about to sleep, or, with false,
// that it is awake.
func (e *Engine) Sleeps(asleep bool) {
	if e != nil {
		e.asleep = asleep // [sleep]
	}
}

// Armed records that the application has armed its descriptor and is about to sleep, or, with
// false, that it has returned from its poller.
func (e *Engine) Armed(armed bool) { e.armed = armed }

// RouseDone records that the effect of Host.Rouse on the leader's descriptor has ended. A leader that
// is still asleep may have to be woken by Host.Rouse again.
func (e *Engine) RouseDone() { e.roused = false } // [rouse done]

// News records that something has happened, for goroutines that wait for any event.
func (e *Engine) News() {
	if e != nil {
		e.news = true
	}
}

// NeedsSettle reports whether there is something for Settle to do.
func (e *Engine) NeedsSettle() bool { return e.news || e.asleep || e.armed }

// AnnounceNews wakes the goroutines that wait for any event, and the application if it sleeps, if
// something has happened since the last call of AnnounceNews. It reports whether that is so.
func (e *Engine) AnnounceNews() bool { return e != nil && e.news && e.announceNews() }

func (e *Engine) announceNews() bool {
	e.news, e.unseen = false, true // [announce]
	e.newsCount++
	if e.leader != nil || e.armed || !e.waiting[Event].Empty() { // otherwise no goroutine waits for it
		e.happened()
	}
	return true
}

// TakeNews reports whether something has happened (News) since the last call of TakeNews. A goroutine
// that is about to sleep calls it to learn what has happened since its last check.
func (e *Engine) TakeNews() bool {
	e.AnnounceNews()
	was := e.unseen // [take news]
	e.unseen = false
	return was
}

// NewsCount returns the number of times that AnnounceNews has reported news, plus 1, so it is never
// 0. A caller that keeps the number can check later whether something has happened since. NewsCount
// does not affect the result of TakeNews.
func (e *Engine) NewsCount() uint64 {
	e.AnnounceNews()
	return 1 + e.newsCount
}

// Settle wakes sleepers if necessary. The owner calls it before Free. The owner may have left work
// that needs a round of progress, or events that were not armed, and its progress may have handled
// the event that was to wake the leader.
func (e *Engine) Settle() {
	e.AnnounceNews()
	if !e.asleep && !e.armed || e.closed { // [settle]
		return
	}
	if e.roused && !e.armed {
		return // the leader has been woken, and will check for work
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

// Close ends all waits with err. Settle has no effect afterwards, because nothing can be armed.
func (e *Engine) Close(err error) {
	e.EndAll(err)
	if e.armed {
		e.ring()
	}
	e.closed = true
}
