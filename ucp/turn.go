package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// In thread mode multi a call takes a turn: while it has it the worker is its goroutine's
// as it is in the other modes all the time (internal/engine says how). Before anything
// else it carries out the calls that others have left for it (call.go). Inside a
// function of the application the turn is that of the call further up the stack.

// takeTurn begins a call, when the worker is free.
func (w *Worker) takeTurn() {
	if !w.engine.Try() {
		if w.engine.Nested() {
			w.gate |= gateInside
			return
		}
		w.engine.Acquire()
	}
	w.beginTurn()
}

// tryTurn begins a call if the worker is free, or soon is. It is takeTurn for calls that
// can be left to others.
func (w *Worker) tryTurn() bool {
	if !w.engine.Try() {
		if w.engine.Nested() {
			w.gate |= gateInside
			return true
		}
		if !w.engine.TryBriefly() {
			return false
		}
	}
	w.beginTurn()
	return true
}

// beginTurn is what comes before the call.
func (w *Worker) beginTurn() {
	w.gate |= gateInside
	if w.engine.Pending() {
		w.engine.Run()
	}
	if w.gate&gateAbandoned != 0 {
		err := w.misused()
		w.endTurn()
		panic(err)
	}
}

// endTurn ends a call.
func (w *Worker) endTurn() {
	w.gate &^= gateInside
	if w.gate.depth() != 0 {
		return
	}
	if w.armed || w.engine.Asleep() {
		w.settle()
	}
	w.passOn()
}

// passOn gives the worker up, when nothing is left to do for others.
func (w *Worker) passOn() {
	e := w.engine
	p := w.caughtPanic()
	e.Free()
	for e.Pending() && e.Retake() {
		w.gate |= gateInside
		e.Run()
		w.gate &^= gateInside
		if w.armed || e.Asleep() {
			w.settle()
		}
		if p == nil {
			p = w.caughtPanic()
		}
		e.Free()
	}
	if p != nil {
		panic(p)
	}
}

// settle sees to those who sleep on the event set: what was done since they armed it
// may need a round of progress, or events that were not armed.
func (w *Worker) settle() {
	if w.wake.roused || w.gate&(gateClosed|gateAbandoned) != 0 {
		return
	}
	busy := w.arm() == ucs.ErrBusy
	if busy || w.engine.Oversleeps() {
		w.rouse()
	}
	if busy && w.armed {
		w.ring()
	}
}

// rouse wakes the leader, who sleeps on the event set.
func (w *Worker) rouse() { w.wake.rouse() }

// ring wakes the application, which sleeps on the event descriptor.
func (w *Worker) ring() {
	w.armed = false
	w.wake.ring()
}

// lost is what is left to do when a callback has ended its goroutine, in the middle
// of its turn: everybody is told.
func (w *Worker) lost() {
	w.engine.Return()
	w.endWaits(w.misused())
	w.engine.Free()
}

// progressTogether is Progress. Where another goroutine has the worker that one
// progresses it, or its call will soon be over.
func (w *Worker) progressTogether() int {
	if !w.tryTurn() {
		return 0
	}
	n := 0
	if w.gate == gateInside { // not closed, and not inside a callback
		w.wake.answer()
		n = w.roundForAll()
	}
	w.endTurn()
	return n
}

// closeTogether is Close.
func (w *Worker) closeTogether() error {
	w.takeTurn()
	var err error
	switch {
	case w.closed:
	case w.gate.depth() != 0:
		err = fmt.Errorf("ucp: closing worker %s inside a callback: %w", w.name, ucs.ErrBusy)
	default:
		err = w.close()
		w.endWaits(errClosedMeanwhile)
	}
	w.endTurn()
	return err
}

var errClosedMeanwhile = fmt.Errorf("ucp: the worker was closed: %w", ucs.ErrCanceled)
