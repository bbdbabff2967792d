package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucp/internal/engine"
	"github.com/ucx-go/ucx/ucs"
)

// Every call acquires the worker first and releases it last. In thread mode multi, where any
// goroutine may call at any time, the engine (internal/engine) gives the worker to one goroutine at
// a time, its owner. The owner first carries out the calls that other goroutines have delegated to
// it (call.go). In the other modes the application ensures that one goroutine calls at a time:
// acquiring checks that no other call is running, and then marks the worker busy. The mark is not
// atomic, because an atomic operation would cost more than is acceptable for a short message. If
// two goroutines call at the same moment by mistake, neither call may detect the mistake, but later
// calls will. Calls that only read (Attr, Stats, Explain) do not check the mark.
//
// A function of the application that a call runs may itself call the worker. The type gate
// therefore also counts the functions of the application that are running. Their calls use the
// ownership of the outermost call.
//
// There are three ways to acquire the worker:
//
//	acquire       for calls that must run now; acquireChecked returns an error where acquire panics
//	tryAcquire    for calls that can be delegated to the goroutine that owns the worker
//	acquireRead   for calls that only read
//
// A call that waits releases the worker in between (pause, resume). The methods with Shared in their
// names are for thread mode multi; of these only abandonShared is used outside this file.

// ownership controls which goroutine uses a worker. It stands at the beginning of Worker,
// because every call reads it.
type ownership struct {
	gate     gate           // whether the worker may be called
	multi    bool           // thread mode multi: any goroutine may call at any time
	panicked *CallbackPanic // panic of a function of the application; the outermost call raises it
	engine   *engine.Engine // selects the owner in thread mode multi, else nil
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
	if err := ow.acquireChecked(); err != nil {
		panic(err)
	}
}

// acquireChecked is acquire for calls that return an error where acquire panics.
func (ow *ownership) acquireChecked() error {
	if ow.multi {
		ow.ownShared()
	}
	err := ow.misused()
	switch {
	case err == nil:
		ow.gate |= gateInside
	case ow.multi:
		ow.release()
	}
	return err
}

// tryAcquire is acquire for calls that can be delegated: it returns false if another goroutine owns
// the worker, for longer than a moment.
func (ow *ownership) tryAcquire() bool {
	if !ow.available() {
		return ow.tryAcquireSlow()
	}
	ow.gate |= gateInside
	return true
}

//go:noinline
func (ow *ownership) tryAcquireSlow() bool {
	if !ow.multi {
		ow.acquireSlow()
		return true
	}
	if !ow.engine.Try() {
		if ow.engine.Nested() {
			ow.gate |= gateInside
			return true
		}
		if !ow.engine.TryBriefly() {
			return false
		}
	}
	ow.gate |= gateInside
	if ow.gate&gateAbandoned != 0 || ow.engine.Pending() {
		ow.beginShared()
		ow.checkShared()
	}
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
	ow.gate &^= gateInside
	e := ow.engine
	if ow.gate != gateShared || e.NeedsSettle() {
		ow.releaseRare()
		return
	}
	e.Free()
	if e.Pending() || e.Wanted() {
		ow.afterRelease(nil)
	}
}

// releaseRare is releaseSlow for the rare cases: a panic must be passed on, a sleeping goroutine must
// be woken, the worker is closed, or a function of the application has made the call.
//
//go:noinline
func (ow *ownership) releaseRare() {
	switch {
	case !ow.multi:
		ow.raise()
	case ow.gate.depth() == 0:
		ow.engine.Settle()
		ow.handOver()
	}
}

// handOver releases the worker, and then carries out the calls that were delegated meanwhile.
func (ow *ownership) handOver() {
	p := ow.caughtPanic()
	ow.engine.Free()
	ow.afterRelease(p)
}

// acquireRead is acquire for calls that only read, and releaseRead ends them. In modes other than
// multi nothing is checked.
func (ow *ownership) acquireRead() {
	if ow.multi {
		ow.acquireSlow()
	}
}

func (ow *ownership) releaseRead() {
	if ow.multi {
		ow.release()
	}
}

// pause lets other goroutines call the worker in the middle of a call that waits, until resume. In
// modes other than multi no other goroutine may call the worker even then, and the mark stays. pause
// panics if a function of the application has panicked.
func (ow *ownership) pause() {
	if ow.gate&(gateShared|gatePanicked) != 0 {
		ow.release()
	}
}

// pauseArmed is pause for a goroutine that has armed the event set and is about to sleep: nothing is
// to be settled.
func (ow *ownership) pauseArmed() {
	if !ow.multi {
		ow.pause()
		return
	}
	ow.gate &^= gateInside
	ow.handOver()
}

// resume acquires the worker again after pause. It does not check whether the worker is usable.
func (ow *ownership) resume() {
	if ow.multi {
		ow.ownShared()
		return
	}
	ow.gate |= gateInside
}

// isClosed reports whether Close was called. The caller need not own the worker.
//
//go:norace
func (ow *ownership) isClosed() bool {
	ow.acquireRead()
	defer ow.releaseRead()
	return ow.gate&gateClosed != 0
}

// ownShared waits for the worker.
func (ow *ownership) ownShared() {
	if !ow.engine.Try() {
		if ow.engine.Nested() {
			ow.gate |= gateInside
			return
		}
		ow.engine.Acquire()
	}
	ow.beginShared()
}

// beginShared marks the worker busy and carries out the calls that other goroutines have delegated.
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
		ow.release()
		panic(err)
	}
}

// afterRelease carries out the calls that other goroutines delegated just before the worker was
// released. Then it raises p, if p is not nil.
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
		e.GiveWay() // other goroutines may push tasks without end
	}
	if p != nil {
		panic(p) // [raise]
	}
	e.GiveWay()
}

// push delegates a task to the owner, or carries it out if there is no owner any more.
func (ow *ownership) push(t *engine.Task) {
	if ow.pushOrAcquire(t) {
		ow.release()
	}
}

// pushOrAcquire delegates a task to the owner. If there is no owner any more, it acquires the
// worker, carries the task out, and returns true.
func (ow *ownership) pushOrAcquire(t *engine.Task) bool {
	ow.engine.Push(t)
	if !ow.engine.Retake() {
		return false
	}
	ow.beginShared()
	ow.checkShared()
	return true
}

// abandonShared closes the engine because a callback has ended the goroutine that owned the worker.
// All calls that wait end with an error.
func (ow *ownership) abandonShared() {
	e := ow.engine
	e.Return() // [lost]
	e.Close(ow.misused())
	for {
		e.Run() // also the remaining tasks of the batch that was being carried out
		e.Free()
		if !e.Pending() || !e.Retake() {
			return
		}
	}
}

// gate decides whether the worker may be called. It consists of flags and the number of functions
// of the application on the stack.
type gate uint32

const (
	gateInside    gate = 1 << iota // a call is running, outside the functions of the application
	gateClosed                     // closed, or being closed
	gatePanicked                   // a function of the application has panicked (ownership.panicked)
	gateAbandoned                  // a function of the application has ended its goroutine in a call
	gateShared                     // thread mode multi; never cleared, so short paths check only this

	gateDepth gate = 1 << 8        // one function of the application on the stack
	gateFlags      = gateDepth - 1 // mask of the flags
)

// depth is the number of functions on the stack, in units of gateDepth.
func (g gate) depth() gate { return g &^ gateFlags }

// available reports whether a call may begin at once: no other call is running, and the worker is
// not in thread mode multi. The read is hidden from the race detector, because the panic on misuse
// says more than a report of the detector, and in thread mode multi the flag gateShared never
// changes.
//
//go:norace
func (ow *ownership) available() bool { return ow.gate&gateFlags == 0 }

// outermost reports whether a call may begin at once and no function of the application is on the
// stack.
//
//go:norace
func (ow *ownership) outermost() bool { return ow.gate == 0 }

// raise passes on a caught panic, if the call that ends is the outermost.
func (ow *ownership) raise() {
	if p := ow.caughtPanic(); p != nil {
		panic(p)
	}
}

// caughtPanic returns the caught panic that the ending call must raise, and clears it. It returns
// nil if there is none, or if the call is not the outermost.
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

// misused returns the error of a call that the application must not make now, nil if it may.
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

// inCallback reports whether a function of the application is running. If the caller does not own
// the worker, the result may be outdated.
//
//go:norace
func (ow *ownership) inCallback() bool { return ow.gate.depth() != 0 }
