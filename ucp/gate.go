package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// A worker belongs to one goroutine at a time, and the caller sees to that. What the
// caller gets wrong is not left to chance: calls that use the worker's state note
// that they are at it, and look first whether one is. The note is a plain word, as
// anything else would cost more than a short message may: two calls that begin at the
// same moment can miss each other, the next ones will not. Calls that only read
// (Attr, Stats, Explain) do not look.
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

	gateDepth gate = 1 << 8        // one function of the application on the stack
	gateFlags      = gateDepth - 1 // all before
)

// depth is the number of functions, where it stands in the word.
func (g gate) depth() gate { return g &^ gateFlags }

// free reports whether nothing is in the way of a call. In race builds it looks
// without telling the detector: what it says is better than a report of a race.
//
//go:norace
func (w *Worker) free() bool { return w.gate&gateFlags == 0 }

// vacant reports whether moreover no call is under way further up the stack.
//
//go:norace
func (w *Worker) vacant() bool { return w.gate == 0 }

// check panics if another call is under way. Calls that can run nothing of the
// application's do no more than that.
func (w *Worker) check() {
	if !w.free() {
		w.checkGate()
	}
}

// enter begins a call. exit ends it: when nothing of the library is left on the
// stack it panics if a function of the application has.
func (w *Worker) enter() {
	if !w.free() {
		w.checkGate()
	}
	w.gate |= gateInside
}

func (w *Worker) exit() {
	if w.gate&gateFlags == gateInside {
		w.gate &^= gateInside
		return
	}
	w.exitGate()
}

//go:noinline
func (w *Worker) exitGate() {
	w.gate &^= gateInside
	w.raise()
}

// raise panics with what was caught, if the call that ends is the outermost.
func (w *Worker) raise() {
	if w.gate.depth() != 0 || w.gate&gatePanicked == 0 {
		return
	}
	p := w.panicked
	w.gate &^= gatePanicked
	w.panicked = nil
	panic(p)
}

// tryEnter is enter for calls that can be refused.
func (w *Worker) tryEnter() error {
	if err := w.misused(); err != nil {
		return err
	}
	w.gate |= gateInside
	return nil
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
		return fmt.Errorf("ucp: a callback has ended the goroutine (runtime.Goexit, t.FailNow) that was inside worker %s, which is unusable since: %w",
			w.name, ucs.ErrInvalidParam)
	case g&gateInside != 0:
		return fmt.Errorf("ucp: two goroutines use worker %s at once, whose thread mode is %v, or one has left it by a panic: %w",
			w.name, w.params.ThreadMode, ucs.ErrBusy)
	}
	return nil
}

// occupied is Progress where it does nothing.
//
//go:noinline
func (w *Worker) occupied() int {
	w.checkGate()
	w.raise()
	return 0 // closed, or inside a callback
}

// isClosed reports whether Close was called, for goroutines that may not look at
// the worker.
//
//go:norace
func (w *Worker) isClosed() bool { return w.gate&gateClosed != 0 }

// inCallback reports whether a function of the application is running, as far as
// another goroutine can tell.
//
//go:norace
func (w *Worker) inCallback() bool { return w.gate.depth() != 0 }
