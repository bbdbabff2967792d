package engine

import "sync/atomic"

// Waiter is a goroutine that waits for something to happen. The methods of the engine
// with a waiter are the owner's, unless they say otherwise.
type Waiter struct {
	wake       chan struct{}
	kind       Kind
	joined     bool
	leads      bool // is the leader, or was told to be
	over       atomic.Bool
	err        error // with which it was ended
	prev, next *Waiter
}

// Kind is what a waiter waits for. A leader that leaves hands over to those first whose
// kind comes first.
type Kind uint8

// Kinds of waiters.
const (
	Always    Kind = iota // nothing: it leads as long as it may
	Operation             // the end of an operation
	Event                 // whatever happens next

	kinds

	// Background is the kind of the one waiter that leads while nobody else waits
	// (background.go).
	Background = kinds
)

// Ready prepares a waiter, which may be one that was used before and has left. It is the
// waiter's own.
func (w *Waiter) Ready(k Kind) {
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	w.kind, w.err = k, nil
	w.over.Store(false)
}

// Wake is readable when the waiter shall look whether it is Over, or leads.
func (w *Waiter) Wake() <-chan struct{} { return w.wake }

// Over reports whether what it waits for has happened. Any goroutine may ask.
func (w *Waiter) Over() bool { return w.over.Load() }

// Gone reports whether moreover nothing of the engine's knows of it any more, so that
// it need not leave. Any goroutine may ask.
func (w *Waiter) Gone() bool { return w.over.Load() && !w.leads }

// Err is the error with which it was ended, when it is over.
func (w *Waiter) Err() error { return w.err }

// Leads reports whether it is the leader.
func (w *Waiter) Leads() bool { return w.leads }

// Join makes w one of those who wait. It leads if nobody else does, or only the
// background waiter.
func (e *Engine) Join(w *Waiter) {
	background := w.kind == Background // [join]
	if background {
		e.background = w
	} else {
		e.led = true
	}
	switch {
	case e.leader == nil:
		e.leader, w.leads = w, true
	case background:
	case e.leader == e.background:
		e.displace(w)
	default:
		e.waiting[w.kind].push(w)
	}
}

// JoinFor is Join for a waiter that parks already, and is told if it leads.
func (e *Engine) JoinFor(w *Waiter) {
	e.Join(w)
	if w.leads {
		w.signal()
	}
}

// Waits reports whether the engine knows of w.
func (w *Waiter) Waits() bool { return w.joined || w.leads }

// End tells a waiter that what it waits for has happened.
func (e *Engine) End(w *Waiter, err error) {
	leads := w.leads // who does not is gone as soon as it is told
	if !leads {      // [end]
		if w.joined {
			e.waiting[w.kind].remove(w)
		}
		e.woken++
	}
	sleeps := leads && e.asleep
	if w == e.background {
		sleeps = e.dozing
		if !leads {
			e.background = nil
		}
	}
	w.err = err
	w.over.Store(true)
	w.signal() // a leader may have been told just now that it is, and not know
	if sleeps {
		e.rouse()
	}
}

// EndAll ends all who wait, of every kind.
func (e *Engine) EndAll(err error) {
	if w := e.leader; w != nil && !w.Over() { // [end all]
		e.End(w, err)
	}
	for k := range e.waiting {
		e.endKind(Kind(k), err)
	}
	if w := e.background; w != nil && !w.Over() {
		e.End(w, err)
	}
}

// happened ends those that wait for any event, and wakes the application's poller if
// that waits for one.
//
//go:noinline
func (e *Engine) happened() {
	e.endKind(Event, nil) // [happened]
	if w := e.leader; w != nil && w.kind == Event && !w.Over() {
		e.End(w, nil) // others have handled what would have woken it
	}
	if e.armed {
		e.ring()
	}
}

func (e *Engine) endKind(k Kind, err error) {
	for w := e.waiting[k].head; w != nil; w = e.waiting[k].head {
		e.End(w, err)
	}
}

// Leave takes w out of those who wait; if it is the leader another one takes over.
// Nothing reaches it after that.
func (e *Engine) Leave(w *Waiter) {
	if w.joined { // [leave]
		e.waiting[w.kind].remove(w)
	}
	if w == e.background {
		e.background = nil
	}
	if w.leads {
		e.leader, w.leads, e.asleep = nil, false, false
		e.handOver()
	}
	select {
	case <-w.wake:
	default:
	}
}

// handOver makes one of those who wait the leader.
func (e *Engine) handOver() {
	for k := range e.waiting {
		if next := e.waiting[k].head; next != nil { // [hand over]
			e.waiting[k].remove(next)
			e.leader, next.leads = next, true
			next.signal()
			e.woken++
			return
		}
	}
	e.handBack()
}

// Woken returns how many waiters were woken since the last time it was asked.
func (e *Engine) Woken() int {
	n := e.woken
	e.woken = 0
	return n
}

func (w *Waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it has not looked since the last one
	}
}

// waiterList is a FIFO with removal from the middle.
type waiterList struct{ head, tail *Waiter }

func (l *waiterList) push(w *Waiter) {
	w.joined = true
	w.prev, w.next = l.tail, nil
	if l.tail == nil {
		l.head = w
	} else {
		l.tail.next = w
	}
	l.tail = w
}

func (l *waiterList) remove(w *Waiter) {
	if w.prev == nil {
		l.head = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.tail = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.joined = nil, nil, false
}
