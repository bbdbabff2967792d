package engine

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/gid"
)

// Engine says who has what it stands for.
type Engine struct {
	owner  atomic.Uint32        // 1 if somebody has it
	wanted atomic.Int32         // how many cannot go on without it
	caller atomic.Uintptr       // the owner, while it is in a function of the application
	tasks  atomic.Pointer[Task] // that were pushed, the last one first
	alone  bool                 // only one goroutine runs at a time
	_      [39]byte             // what is the owner's has lines of its own

	// The owner's.
	host     Host
	batch    *Task // of tasks that are being done, the first one first
	leader   *Waiter
	waiting  [kinds]waiterList
	asleep   bool   // the leader is
	roused   bool   // and was told
	armed    bool   // the application sleeps
	news     bool   // something has happened in this turn
	untold   bool   // or before, since somebody asked
	tellings uint64 // turns in which something has
	closed   bool   // there is nothing to be armed any more
	woken    int    // waiters, since somebody asked

	background *Waiter // leads while nobody else waits, nil if there is none
	dozing     bool    // it sleeps on the events, or is about to take a turn behind that
	due        bool    // it will be signaled
	led        bool    // somebody else has waited since that was asked for
}

// New returns an engine that nobody has.
func New(h Host) *Engine { return &Engine{host: h, alone: runtime.GOMAXPROCS(0) == 1} }

// Task is something to be done by the owner. It is part of what it is about, so that
// pushing takes no memory, and is not touched any more once it is being done.
type Task struct {
	next *Task
	do   Doer
}

// Doer does a task.
type Doer interface{ Do() }

// Of sets what is to be done.
func (t *Task) Of(d Doer) { t.do = d }

// Try takes the engine if nobody has it, and nobody is waiting for it.
func (e *Engine) Try() bool {
	return e.wanted.Load() == 0 && e.owner.CompareAndSwap(0, 1) // [try]
}

// Retake takes it back, for who has just freed it and finds a task.
func (e *Engine) Retake() bool { return e.owner.CompareAndSwap(0, 1) } // [retake]

// Free gives the engine up. The owner looks for tasks after that.
func (e *Engine) Free() { e.owner.Store(0) } // [free]

// Pending reports whether there are tasks.
func (e *Engine) Pending() bool { return e.tasks.Load() != nil } // [look]

// Wanted reports whether somebody cannot go on without it.
func (e *Engine) Wanted() bool { return e.wanted.Load() > 0 }

// Push leaves a task for the owner. Who has pushed tries to become that.
func (e *Engine) Push(t *Task) {
	for { // [push]
		old := e.tasks.Load()
		t.next = old
		if e.tasks.CompareAndSwap(old, t) {
			return
		}
	}
}

// Run does what was pushed, in the order of that. It is the owner's.
func (e *Engine) Run() {
	for t := e.tasks.Swap(nil); t != nil; { // [run]
		next := t.next
		t.next, e.batch = e.batch, t
		t = next
	}
	for e.batch != nil { // not a local one: a task may end the goroutine
		t := e.batch
		e.batch, t.next = t.next, nil
		t.do.Do()
	}
}

// How often a goroutine that does not get the engine looks again, resting in between:
// for as long as a short call takes, and for longer than parking would.
const (
	briefly = 8
	long    = 64
)

// spins is 0 where only one goroutine runs at a time: who has the engine does not get
// on while another one spins.
func (e *Engine) spins(n int) int {
	if e.alone {
		return 0
	}
	return n
}

// TryBriefly is Try for who would rather wait for a moment than push.
func (e *Engine) TryBriefly() bool {
	for range e.spins(briefly) {
		cpu.Relax()
		if e.owner.Load() == 0 && e.Try() {
			return true
		}
	}
	return false
}

// Acquire takes the engine, however long that takes.
func (e *Engine) Acquire() {
	n := e.spins(long)
	if e.spin(n) {
		return
	}
	e.wanted.Add(1) // [want]
	for !e.spin(n) {
		w := idleWishes.Get().(*wish)
		e.Push(&w.Task) // [wish]
		if e.Retake() {
			break // and grants the wish itself, which nobody will use again
		}
		<-w.granted // [granted]
		idleWishes.Put(w)
	}
	e.wanted.Add(-1) // [served]
}

// spin tries for a while.
func (e *Engine) spin(n int) bool {
	for {
		if e.owner.Load() == 0 && e.Retake() {
			return true
		}
		if n--; n < 0 {
			return false
		}
		cpu.Relax()
	}
}

// GiveWay lets one go first who has been waiting. It is for who has just freed the
// engine, and may want it again at once.
func (e *Engine) GiveWay() {
	if e.Wanted() {
		e.giveWay()
	}
}

//go:noinline
func (e *Engine) giveWay() {
	for range e.spins(long) {
		if e.owner.Load() != 0 || e.wanted.Load() == 0 {
			return
		}
		cpu.Relax()
	}
	runtime.Gosched()
}

// wish is a task that wakes who is waiting for the engine.
type wish struct {
	Task
	granted chan struct{}
}

var idleWishes = sync.Pool{New: func() any {
	w := &wish{granted: make(chan struct{}, 1)}
	w.Of(w)
	return w
}}

// Do implements Doer.
func (w *wish) Do() { w.granted <- struct{}{} } // [grant]

// Call notes that the owner calls a function of the application, which may call back.
func (e *Engine) Call() { e.caller.Store(uintptr(gid.Self())) }

// Return notes that the outermost such function has returned.
func (e *Engine) Return() { e.caller.Store(0) }

// Nested reports whether the goroutine that calls is the owner, in a function of the
// application.
func (e *Engine) Nested() bool {
	caller := e.caller.Load()
	return caller != 0 && caller == uintptr(gid.Self())
}
