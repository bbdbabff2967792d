package engine

import "sync/atomic"

// Waiter is a goroutine that waits for something to happen. All methods of the engine
// with a waiter are the owner's; what they are told is the waiter's to read when it has
// been woken, or owns the engine.
type Waiter struct {
	Owner      any // who waits, the user's
	wake       chan struct{}
	kind       Kind
	joined     bool
	leads      bool // is the leader, or was told to be
	over       atomic.Bool
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
)

// Ready prepares a waiter, which may be one that was used before and has left.
func (w *Waiter) Ready(k Kind) {
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
	w.kind = k
	w.over.Store(false)
}

// Wake is readable when the waiter shall look whether it is Over, or leads.
func (w *Waiter) Wake() <-chan struct{} { return w.wake }

// Over reports whether what it waits for has happened.
func (w *Waiter) Over() bool { return w.over.Load() }

// Gone reports whether moreover nothing of the engine's knows of it any more, so that
// it need not leave. Any goroutine may ask.
func (w *Waiter) Gone() bool { return w.over.Load() && !w.leads }

// JoinFor is Join for a waiter that parks already, and is told if it leads.
func (e *Engine) JoinFor(w *Waiter) {
	e.Join(w)
	if w.leads {
		w.signal()
	}
}

// Join makes w one of those who wait. It leads if nobody else does.
func (e *Engine) Join(w *Waiter) {
	if e.leader == nil { // [join]
		e.leader, w.leads = w, true
		return
	}
	e.waiting[w.kind].push(w)
}

// Leads reports whether w is the leader.
func (w *Waiter) Leads() bool { return w.leads }

// End tells a waiter that what it waits for has happened. It reports whether that is
// the leader, asleep, who has to be woken another way.
func (e *Engine) End(w *Waiter) (rouse bool) {
	if !w.leads { // [end]
		if w.joined {
			e.waiting[w.kind].remove(w)
		}
		e.woken++
	}
	w.over.Store(true)
	w.signal() // a leader may have been told just now that it is, and not know
	return w.leads && e.asleep
}

// Leave takes w out of those who wait; if it is the leader another one takes over.
// Nothing reaches it after that.
func (e *Engine) Leave(w *Waiter) {
	if w.joined { // [leave]
		e.waiting[w.kind].remove(w)
	}
	if w.leads {
		e.leader, w.leads = nil, false
		for k := range e.waiting {
			if next := e.waiting[k].head; next != nil { // [hand over]
				e.waiting[k].remove(next)
				e.leader, next.leads = next, true
				next.signal()
				e.woken++
				break
			}
		}
	}
	select {
	case <-w.wake:
	default:
	}
}

// Happened ends what waits for any event.
func (e *Engine) Happened() {
	for w := e.waiting[Event].head; w != nil; w = e.waiting[Event].head {
		e.End(w)
	}
}

// Each calls fn for all who wait, which may end them.
func (e *Engine) Each(fn func(w *Waiter)) {
	if e.leader != nil {
		fn(e.leader)
	}
	for k := range e.waiting {
		for w := e.waiting[k].head; w != nil; {
			next := w.next
			fn(w)
			w = next
		}
	}
}

// Asleep reports whether the leader sleeps, and has to be told of what others do.
func (e *Engine) Asleep() bool { return e.asleep }

// Oversleeps reports whether it does although what it waits for has happened.
func (e *Engine) Oversleeps() bool { return e.asleep && e.leader.Over() }

// Sleeps notes that the leader is about to sleep, or that it is awake, or soon will be.
func (e *Engine) Sleeps(asleep bool) { e.asleep = asleep } // [sleep]

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
