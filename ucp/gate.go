package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// A worker belongs to one goroutine at a time. Calls note that they are at it, and look
// first whether one is. In thread mode multi they have made sure of it (turn.go). In the
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

// free reports whether nothing is in the way of a call, and the worker is one of a
// single goroutine. In race builds it looks without telling the detector: what it says
// is better than a report of a race, and of a shared worker it is the same all the time.
//
//go:norace
func (w *Worker) free() bool { return w.gate&gateFlags == 0 }

// vacant reports whether moreover no call is under way further up the stack.
//
//go:norace
func (w *Worker) vacant() bool { return w.gate == 0 }

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
