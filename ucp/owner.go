package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucs"
)

// Every call begins and ends here. In thread mode multi it takes a turn: while it has it
// the worker is its goroutine's as it is in the other modes all the time
// (internal/engine says how). Before anything else it carries out the calls that others
// have left for it (call.go). Inside a function of the application the turn is that
// of the call further up the stack.

// acquire begins a call. exit ends it: when nothing of the library is left on the
// stack it panics if a function of the application has.
func (w *Worker) acquire() {
	if !w.available() {
		w.acquireSlow()
		return
	}
	w.gate |= gateInside
}

//go:noinline
func (w *Worker) acquireSlow() {
	if w.multi {
		w.acquireShared()
		return
	}
	w.checkGate()
	w.gate |= gateInside
}

// tryAcquire is enter for calls that can be left to others: it reports whether the call has
// begun.
func (w *Worker) tryAcquire() bool {
	if !w.available() {
		return w.tryAcquireSlow()
	}
	w.gate |= gateInside
	return true
}

//go:noinline
func (w *Worker) tryAcquireSlow() bool {
	if w.multi {
		return w.tryAcquireShared()
	}
	w.acquireSlow()
	return true
}

// acquireFast is begin for short paths: it fails where anything is in the way.
func (w *Worker) acquireFast() bool {
	if !w.available() {
		return w.acquireSharedFast()
	}
	w.gate |= gateInside
	return true
}

func (w *Worker) release() {
	if w.gate&gateFlags == gateInside {
		w.gate &^= gateInside
		return
	}
	w.releaseSlow()
}

//go:noinline
func (w *Worker) releaseSlow() {
	if w.multi {
		w.releaseShared()
		return
	}
	w.gate &^= gateInside
	w.raise()
}

// acquireRead is enter for calls that only read, which nothing refuses in the modes in which
// the caller sees to it that nobody else is at it. unlook ends it.
func (w *Worker) acquireRead() {
	if w.multi {
		w.acquireShared()
	}
}

func (w *Worker) releaseRead() {
	if w.multi {
		w.releaseShared()
	}
}

// acquireChecked is enter for calls that can be refused.
func (w *Worker) acquireChecked() error {
	if w.multi {
		w.waitShared()
	}
	if err := w.misused(); err != nil {
		w.releaseRead()
		return err
	}
	w.gate |= gateInside
	return nil
}

// isClosed reports whether Close was called, for goroutines that may not look at
// the worker.
//
//go:norace
func (w *Worker) isClosed() bool {
	w.acquireRead()
	defer w.releaseRead()
	return w.gate&gateClosed != 0
}

// acquireShared begins a call, when the worker is free.
func (w *Worker) acquireShared() {
	w.waitShared()
	w.checkShared()
}

// waitShared is takeTurn for calls that look themselves whether the worker can be used.
func (w *Worker) waitShared() {
	if !w.engine.Try() {
		if w.engine.Nested() {
			w.gate |= gateInside
			return
		}
		w.engine.Acquire()
	}
	w.beginShared()
}

// acquireSharedFast begins a call if that takes no time. It is tryTurn for short paths.
//
//go:noinline
func (w *Worker) acquireSharedFast() bool {
	if !w.multi || !w.engine.Try() {
		return false
	}
	w.gate |= gateInside
	if w.gate&gateAbandoned != 0 || w.engine.Pending() {
		w.beginShared()
		w.checkShared()
	}
	return true
}

// tryAcquireShared begins a call if the worker is free, or soon is. It is takeTurn for calls that
// can be left to others.
func (w *Worker) tryAcquireShared() bool {
	if !w.engine.Try() {
		if w.engine.Nested() {
			w.gate |= gateInside
			return true
		}
		if !w.engine.TryBriefly() {
			return false
		}
	}
	w.beginShared()
	w.checkShared()
	return true
}

// beginShared is what comes before the call.
func (w *Worker) beginShared() {
	w.gate |= gateInside
	if w.engine.Pending() { // [begin]
		w.engine.Run()
	}
}

// checkShared panics, and ends the turn, if a callback has left the worker unusable.
func (w *Worker) checkShared() {
	if w.gate&gateAbandoned != 0 {
		err := w.misused()
		w.releaseShared()
		panic(err)
	}
}

// releaseShared ends a call.
func (w *Worker) releaseShared() {
	w.gate &^= gateInside
	e := w.engine
	if w.gate != gateShared || e.Restless() {
		w.releaseSharedSlow()
		return
	}
	e.Free() // passOn, without other calls
	if e.Pending() || e.Wanted() {
		w.afterRelease(nil)
	}
}

// releaseSharedSlow is endTurn where there is something to see to: a panic, sleepers, a
// function of the application that the call was made in.
//
//go:noinline
func (w *Worker) releaseSharedSlow() {
	if w.gate.depth() == 0 {
		w.engine.Settle()
		w.handOver()
	}
}

// handOver gives the worker up, when nothing is left to do for others.
func (w *Worker) handOver() {
	p := w.caughtPanic()
	w.engine.Free()
	w.afterRelease(p)
}

// afterRelease does what others have left until the worker was given up.
//
//go:noinline
func (w *Worker) afterRelease(p *CallbackPanic) {
	e := w.engine
	for e.Pending() && e.Retake() {
		w.gate |= gateInside
		e.Run()
		w.gate &^= gateInside
		e.Settle()
		if p == nil {
			p = w.caughtPanic()
		}
		e.Free()
		e.GiveWay() // there may be no end of tasks
	}
	if p != nil {
		panic(p) // [raise]
	}
	e.GiveWay()
}

// push leaves a task to the goroutine that has the worker, or does it if nobody has it any
// more.
func (w *Worker) push(t *engine.Task) {
	w.engine.Push(t)
	if w.engine.Retake() {
		w.beginShared()
		w.checkShared()
		w.releaseShared()
	}
}

// abandonShared is what is left to do when a callback has ended its goroutine, in the
// middle of its turn: everybody is told.
func (w *Worker) abandonShared() {
	e := w.engine
	e.Return() // [lost]
	e.Close(w.misused())
	for {
		e.Run() // the rest too of those that were being done
		e.Free()
		if !e.Pending() || !e.Retake() {
			return
		}
	}
}

// A worker belongs to one goroutine at a time. Calls note that they are at it, and look
// first whether one is. In thread mode multi they have made sure of it (below). In the
// other modes the caller does, and what he gets wrong is not left to chance: the note is a
// plain word, as anything else would cost more than a short message may, so two calls
// that begin at the same moment can miss each other, the next ones will not. Calls that
// only read (Attr, Stats, Explain) do not look there.
//
// While a function of the application runs the worker is free to be called, by the
// same goroutine: the gate counts those functions, too.

// gate says whether the worker may be called.
type gate uint32

const (
	gateInside    gate = 1 << iota // a call is under way, and not in a function of the application
	gateClosed                     // closed, or being closed
	gatePanicked                   // a function of the application has panicked: the outermost call says so
	gateAbandoned                  // one has ended its goroutine, in the middle of a call
	gateShared                     // thread mode multi, for good: short paths do not look further

	gateDepth gate = 1 << 8        // one function of the application on the stack
	gateFlags      = gateDepth - 1 // all before
)

// depth is the number of functions, where it stands in the word.
func (g gate) depth() gate { return g &^ gateFlags }

// available reports whether nothing is in the way of a call, and the worker is one of a
// single goroutine. In race builds it looks without telling the detector: what it says
// is better than a report of a race, and of a shared worker it is the same all the time.
//
//go:norace
func (w *Worker) available() bool { return w.gate&gateFlags == 0 }

// outermost reports whether moreover no call is under way further up the stack.
//
//go:norace
func (w *Worker) outermost() bool { return w.gate == 0 }

// raise panics with what was caught, if the call that ends is the outermost.
func (w *Worker) raise() {
	if p := w.caughtPanic(); p != nil {
		panic(p)
	}
}

// caughtPanic returns what the call that ends is to panic with.
func (w *Worker) caughtPanic() *CallbackPanic {
	if w.gate.depth() != 0 || w.gate&gatePanicked == 0 {
		return nil
	}
	p := w.panicked
	w.gate &^= gatePanicked
	w.panicked = nil
	return p
}

//go:noinline
func (w *Worker) checkGate() {
	if err := w.misused(); err != nil {
		panic(err)
	}
}

// misused says why the worker cannot be called, if that is a mistake.
//
//go:norace
func (w *Worker) misused() error {
	switch g := w.gate; {
	case g&gateAbandoned != 0:
		return fmt.Errorf("ucp: worker %s is unusable: a callback has ended the goroutine inside it (runtime.Goexit, t.FailNow): %w",
			w.name, ucs.ErrInvalidParam)
	case g&gateInside != 0 && !w.multi:
		return fmt.Errorf("ucp: two goroutines use worker %s at the same time, in thread mode %v, or a panic has left it in use: %w",
			w.name, w.params.ThreadMode, ucs.ErrBusy)
	}
	return nil
}

// inCallback reports whether a function of the application is running, as far as
// another goroutine can tell.
//
//go:norace
func (w *Worker) inCallback() bool { return w.gate.depth() != 0 }
