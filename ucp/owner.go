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

// ownership says which goroutine uses a worker: the first words of the worker, which every
// call looks at.
type ownership struct {
	gate     gate           // whether the worker may be called
	multi    bool           // thread mode multi: any goroutine may, at any time
	panicked *CallbackPanic // of a function of the application, until the outermost call ends
	engine   *engine.Engine // whose turn it is, in thread mode multi
	w        *Worker
}

// acquire begins a call. exit ends it: when nothing of the library is left on the
// stack it panics if a function of the application has.
func (ow *ownership) acquire() {
	if !ow.available() {
		ow.acquireSlow()
		return
	}
	ow.gate |= gateInside
}

//go:noinline
func (ow *ownership) acquireSlow() {
	if ow.multi {
		ow.acquireShared()
		return
	}
	ow.checkGate()
	ow.gate |= gateInside
}

// tryAcquire is enter for calls that can be left to others: it reports whether the call has
// begun.
func (ow *ownership) tryAcquire() bool {
	if !ow.available() {
		return ow.tryAcquireSlow()
	}
	ow.gate |= gateInside
	return true
}

//go:noinline
func (ow *ownership) tryAcquireSlow() bool {
	if ow.multi {
		return ow.tryAcquireShared()
	}
	ow.acquireSlow()
	return true
}

// acquireFast is begin for short paths: it fails where anything is in the way.
func (ow *ownership) acquireFast() bool {
	if !ow.available() {
		return ow.acquireSharedFast()
	}
	ow.gate |= gateInside
	return true
}

func (ow *ownership) release() {
	if ow.gate&gateFlags == gateInside {
		ow.gate &^= gateInside
		return
	}
	ow.releaseSlow()
}

//go:noinline
func (ow *ownership) releaseSlow() {
	if ow.multi {
		ow.releaseShared()
		return
	}
	ow.gate &^= gateInside
	ow.raise()
}

// acquireRead is enter for calls that only read, which nothing refuses in the modes in which
// the caller sees to it that nobody else is at it. unlook ends it.
func (ow *ownership) acquireRead() {
	if ow.multi {
		ow.acquireShared()
	}
}

func (ow *ownership) releaseRead() {
	if ow.multi {
		ow.releaseShared()
	}
}

// acquireChecked is enter for calls that can be refused.
func (ow *ownership) acquireChecked() error {
	if ow.multi {
		ow.waitShared()
	}
	if err := ow.misused(); err != nil {
		ow.releaseRead()
		return err
	}
	ow.gate |= gateInside
	return nil
}

// isClosed reports whether Close was called, for goroutines that may not look at
// the worker.
//
//go:norace
func (ow *ownership) isClosed() bool {
	ow.acquireRead()
	defer ow.releaseRead()
	return ow.gate&gateClosed != 0
}

// acquireShared begins a call, when the worker is free.
func (ow *ownership) acquireShared() {
	ow.waitShared()
	ow.checkShared()
}

// waitShared is takeTurn for calls that look themselves whether the worker can be used.
func (ow *ownership) waitShared() {
	if !ow.engine.Try() {
		if ow.engine.Nested() {
			ow.gate |= gateInside
			return
		}
		ow.engine.Acquire()
	}
	ow.beginShared()
}

// acquireSharedFast begins a call if that takes no time. It is tryTurn for short paths.
//
//go:noinline
func (ow *ownership) acquireSharedFast() bool {
	if !ow.multi || !ow.engine.Try() {
		return false
	}
	ow.gate |= gateInside
	if ow.gate&gateAbandoned != 0 || ow.engine.Pending() {
		ow.beginShared()
		ow.checkShared()
	}
	return true
}

// tryAcquireShared begins a call if the worker is free, or soon is. It is takeTurn for calls that
// can be left to others.
func (ow *ownership) tryAcquireShared() bool {
	if !ow.engine.Try() {
		if ow.engine.Nested() {
			ow.gate |= gateInside
			return true
		}
		if !ow.engine.TryBriefly() {
			return false
		}
	}
	ow.beginShared()
	ow.checkShared()
	return true
}

// beginShared is what comes before the call.
func (ow *ownership) beginShared() {
	ow.gate |= gateInside
	if ow.engine.Pending() { // [begin]
		ow.engine.Run()
	}
}

// checkShared panics, and ends the turn, if a callback has left the worker unusable.
func (ow *ownership) checkShared() {
	if ow.gate&gateAbandoned != 0 {
		err := ow.misused()
		ow.releaseShared()
		panic(err)
	}
}

// releaseShared ends a call.
func (ow *ownership) releaseShared() {
	ow.gate &^= gateInside
	e := ow.engine
	if ow.gate != gateShared || e.Restless() {
		ow.releaseSharedSlow()
		return
	}
	e.Free() // passOn, without other calls
	if e.Pending() || e.Wanted() {
		ow.afterRelease(nil)
	}
}

// releaseSharedSlow is endTurn where there is something to see to: a panic, sleepers, a
// function of the application that the call was made in.
//
//go:noinline
func (ow *ownership) releaseSharedSlow() {
	if ow.gate.depth() == 0 {
		ow.engine.Settle()
		ow.handOver()
	}
}

// handOver gives the worker up, when nothing is left to do for others.
func (ow *ownership) handOver() {
	p := ow.caughtPanic()
	ow.engine.Free()
	ow.afterRelease(p)
}

// afterRelease does what others have left until the worker was given up.
//
//go:noinline
func (ow *ownership) afterRelease(p *CallbackPanic) {
	e := ow.engine
	for e.Pending() && e.Retake() {
		ow.gate |= gateInside
		e.Run()
		ow.gate &^= gateInside
		e.Settle()
		if p == nil {
			p = ow.caughtPanic()
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
func (ow *ownership) push(t *engine.Task) {
	ow.engine.Push(t)
	if ow.engine.Retake() {
		ow.beginShared()
		ow.checkShared()
		ow.releaseShared()
	}
}

// abandonShared is what is left to do when a callback has ended its goroutine, in the
// middle of its turn: everybody is told.
func (ow *ownership) abandonShared() {
	e := ow.engine
	e.Return() // [lost]
	e.Close(ow.misused())
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
func (ow *ownership) available() bool { return ow.gate&gateFlags == 0 }

// outermost reports whether moreover no call is under way further up the stack.
//
//go:norace
func (ow *ownership) outermost() bool { return ow.gate == 0 }

// raise panics with what was caught, if the call that ends is the outermost.
func (ow *ownership) raise() {
	if p := ow.caughtPanic(); p != nil {
		panic(p)
	}
}

// caughtPanic returns what the call that ends is to panic with.
func (ow *ownership) caughtPanic() *CallbackPanic {
	if ow.gate.depth() != 0 || ow.gate&gatePanicked == 0 {
		return nil
	}
	p := ow.panicked
	ow.gate &^= gatePanicked
	ow.panicked = nil
	return p
}

//go:noinline
func (ow *ownership) checkGate() {
	if err := ow.misused(); err != nil {
		panic(err)
	}
}

// misused says why the worker cannot be called, if that is a mistake.
//
//go:norace
func (ow *ownership) misused() error {
	w := ow.w
	switch g := ow.gate; {
	case g&gateAbandoned != 0:
		return fmt.Errorf("ucp: worker %s is unusable: a callback has ended the goroutine inside it (runtime.Goexit, t.FailNow): %w",
			w.name, ucs.ErrInvalidParam)
	case g&gateInside != 0 && !ow.multi:
		return fmt.Errorf("ucp: two goroutines use worker %s at the same time, in thread mode %v, or a panic has left it in use: %w",
			w.name, w.params.ThreadMode, ucs.ErrBusy)
	}
	return nil
}

// inCallback reports whether a function of the application is running, as far as
// another goroutine can tell.
//
//go:norace
func (ow *ownership) inCallback() bool { return ow.gate.depth() != 0 }
