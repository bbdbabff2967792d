package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucs"
)

// Every call acquires the worker first and releases it last. In thread mode multi, where any
// goroutine may call at any time, the engine (internal/engine) gives the worker to one goroutine
// at a time, its owner; the owner first carries out the calls that others have delegated to it
// (call.go). In the other modes the caller sees to it that there is one goroutine at a time, and
// acquiring marks the worker busy, after checking that no other call is running. That mark is a
// plain word, because an atomic one would cost more than a short message may: of two goroutines
// that call at the same moment by mistake neither may notice, but later calls will. Calls that
// only read (Attr, Stats, Explain) do not check it.
//
// A function of the application that a call runs may itself call the worker. The gate therefore
// also counts such functions, and their calls belong to the ownership of the outermost call.

// ownership says which goroutine uses a worker: the first words of the worker, which every
// call looks at.
type ownership struct {
	gate     gate           // whether the worker may be called
	multi    bool           // thread mode multi: any goroutine may, at any time
	panicked *CallbackPanic // of a function of the application, until the outermost call ends
	engine   *engine.Engine // whose turn it is, in thread mode multi
	w        *Worker
}

// acquire begins a call, and release ends it. The end of the outermost call panics if a function
// of the application has panicked.
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

// tryAcquire is acquire for calls that can be delegated: it reports whether the call has begun.
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

// acquireFast is tryAcquire for short paths. It fails where they have to go the long way.
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

// acquireRead is acquire for calls that only read, and releaseRead ends them. In modes other than
// multi nothing is checked.
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

// acquireChecked is acquire for calls that return an error where acquire panics.
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

// isClosed reports whether Close was called, to goroutines that do not own the worker.
//
//go:norace
func (ow *ownership) isClosed() bool {
	ow.acquireRead()
	defer ow.releaseRead()
	return ow.gate&gateClosed != 0
}

// acquireShared waits for the worker and begins a call. All methods with Shared in their names
// are for thread mode multi.
func (ow *ownership) acquireShared() {
	ow.waitShared()
	ow.checkShared()
}

// waitShared is acquireShared for calls that check themselves whether the worker is usable.
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

// acquireSharedFast begins a call if nobody owns the worker. It is tryAcquireShared for short paths.
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

// tryAcquireShared begins a call if the worker is free, or becomes free soon. It is for calls that
// can be delegated.
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

// beginShared marks the worker busy and carries out what others have delegated.
func (ow *ownership) beginShared() {
	ow.gate |= gateInside
	if ow.engine.Pending() { // [begin]
		ow.engine.Run()
	}
}

// checkShared panics, and releases the worker, if a callback has left it unusable.
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
	e.Free() // as in handOver, which is a call more
	if e.Pending() || e.Wanted() {
		ow.afterRelease(nil)
	}
}

// releaseSharedSlow is releaseShared where there is a panic to pass on, a sleeper to wake, or a
// function of the application that made the call.
//
//go:noinline
func (ow *ownership) releaseSharedSlow() {
	if ow.gate.depth() == 0 {
		ow.engine.Settle()
		ow.handOver()
	}
}

// handOver releases the worker, and then carries out what was delegated meanwhile.
func (ow *ownership) handOver() {
	p := ow.caughtPanic()
	ow.engine.Free()
	ow.afterRelease(p)
}

// afterRelease carries out what others delegated just before the worker was released.
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

// push delegates a task to the owner, or carries it out if there is no owner any more.
func (ow *ownership) push(t *engine.Task) {
	ow.engine.Push(t)
	if ow.engine.Retake() {
		ow.beginShared()
		ow.checkShared()
		ow.releaseShared()
	}
}

// abandonShared closes the engine when a callback has ended the goroutine that owned the worker:
// all who wait get an error.
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

// gate says whether the worker may be called: flags, and how many functions of the application
// are on the stack.
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

// depth is the number of functions on the stack, in units of gateDepth.
func (g gate) depth() gate { return g &^ gateFlags }

// available reports whether a call may begin at once: no other call is running, and the worker is
// not in thread mode multi. The race detector is not told of the read: the panic that misuse leads
// to says more than the detector would, and in thread mode multi the flag never changes.
//
//go:norace
func (ow *ownership) available() bool { return ow.gate&gateFlags == 0 }

// outermost is available that also wants no function of the application on the stack.
//
//go:norace
func (ow *ownership) outermost() bool { return ow.gate == 0 }

// raise passes on a caught panic, if the call that ends is the outermost.
func (ow *ownership) raise() {
	if p := ow.caughtPanic(); p != nil {
		panic(p)
	}
}

// caughtPanic returns what the call that ends has to panic with, nil if nothing.
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

// misused returns the error of a call that the application must not make now.
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

// inCallback reports whether a function of the application is running, as far as a goroutine
// that does not own the worker can tell.
//
//go:norace
func (ow *ownership) inCallback() bool { return ow.gate.depth() != 0 }
