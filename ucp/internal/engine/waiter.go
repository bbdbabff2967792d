package engine

import (
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/ucp/internal/list"
)

// Waiter is a goroutine that waits for something to happen. Only the owner may call the methods of
// the engine that take a Waiter.
type Waiter struct {
	wake  chan struct{}
	kind  Kind
	leads bool // is the leader; the goroutine may not have noticed yet
	over  atomic.Bool
	err   error // result of the wait
	node  list.Node[Waiter]
}

// Kind is what a waiter waits for. When the leader leaves, the waiter of the lowest kind that has
// waited longest becomes the leader.
type Kind uint8

// Kinds of waiters.
const (
	Always    Kind = iota // nothing: the waiter is the leader as long as possible
	Operation             // the end of an operation
	Event                 // any event

	kinds

	// Background is the kind of the background waiter, which is the leader while no other goroutine
	// waits (background.go).
	Background = kinds
)

// Ready prepares a waiter for a wait. The waiter may have been used before, with any engine, if it
// has left. Only the goroutine of the waiter may call it.
func (e *Engine) Ready(w *Waiter, k Kind) {
	if w.over.Load() {
		w.over.Store(false)
	}
	if e != nil {
		w.ready(k)
	}
}

func (w *Waiter) ready(k Kind) {
	if w.wake == nil {
		w.wake, w.node.Value = make(chan struct{}, 1), w
	}
	w.kind, w.err = k, nil
}

// Wake returns a channel that is readable when the waiter must check Over and Leads.
func (w *Waiter) Wake() <-chan struct{} { return w.wake }

// Over reports whether the wait is over. Any goroutine may call it.
func (w *Waiter) Over() bool { return w.over.Load() }

// Gone reports whether the wait is over and the engine no longer refers to the waiter, so that
// Leave is not needed. Any goroutine may call it.
func (w *Waiter) Gone() bool {
	over := w.over.Load()
	platform.Step()
	return over && !w.leads
}

// Err returns the error with which the wait was ended. It is valid when Over returns true.
func (w *Waiter) Err() error { return w.err }

// Leads reports whether the waiter is the leader.
func (w *Waiter) Leads() bool { return w.leads }

// Join adds a waiter to the waiters of the engine. It becomes the leader if there is none, or only
// the background waiter.
func (e *Engine) Join(w *Waiter) {
	if e == nil {
		w.leads = true
		return
	}
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
		e.waiting[w.kind].Push(&w.node)
	}
}

// JoinFor is Join for a waiter that may be parked already. If the waiter becomes the leader,
// JoinFor wakes it.
func (e *Engine) JoinFor(w *Waiter) {
	e.Join(w)
	if w.leads {
		w.signal()
	}
}

// Waits reports whether the engine refers to w: w is in a list of waiters or is the leader.
func (w *Waiter) Waits() bool { return w.node.Linked() || w.leads }

// End ends the wait of w with err.
func (e *Engine) End(w *Waiter, err error) {
	if e == nil {
		w.err = err
		w.over.Store(true)
		return
	}
	leads := w.leads // read first: a waiter that does not lead is gone once over is set
	if !leads {      // [end]
		if w.node.Linked() {
			w.node.Remove()
		}
		e.woken++
	}
	sleeps := leads && e.asleep
	if w == e.background {
		sleeps = e.backgroundAsleep
		if !leads {
			e.background = nil
		}
	}
	w.err = err
	platform.Step()
	w.over.Store(true)
	w.signal() // a leader too, because it may still be parked if it became the leader just now
	if sleeps {
		e.rouse()
	}
}

// EndAll ends the waits of all waiters with err.
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

// happened ends the waits of kind Event, and wakes the application if it sleeps.
//
//go:noinline
func (e *Engine) happened() {
	e.endKind(Event, nil) // [happened]
	if w := e.leader; w != nil && w.kind == Event && !w.Over() {
		e.End(w, nil) // another goroutine has handled the event that would have woken it
	}
	if e.armed {
		e.ring()
	}
}

func (e *Engine) endKind(k Kind, err error) {
	for l := &e.waiting[k]; !l.Empty(); {
		e.End(l.Front().Value, err)
	}
}

// Leave removes w from the waiters of the engine. If w is the leader, another waiter becomes the
// leader. The engine does not wake w afterwards.
func (e *Engine) Leave(w *Waiter) {
	if e == nil {
		w.leads = false
		return
	}
	if w.node.Linked() { // [leave]
		w.node.Remove()
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

// handOver makes another waiter the leader, if there is one.
func (e *Engine) handOver() {
	for k := range e.waiting {
		if !e.waiting[k].Empty() { // [hand over]
			next := e.waiting[k].Pop()
			e.leader, next.leads = next, true
			next.signal()
			e.woken++
			return
		}
	}
	e.handBack()
}

// Woken returns the number of waiters that were woken since the last call of Woken.
func (e *Engine) Woken() int {
	if e == nil {
		return 0
	}
	n := e.woken
	e.woken = 0
	return n
}

func (w *Waiter) signal() {
	platform.Step()
	select {
	case w.wake <- struct{}{}:
	default: // the waiter has not read the last signal yet
	}
}
