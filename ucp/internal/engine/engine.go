package engine

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/gid"
	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/ucp/internal/list"
)

// Engine decides which goroutine owns the host, and which waiting goroutine is the leader.
type Engine struct {
	owner  atomic.Uint32        // 1 while a goroutine owns the engine
	wanted atomic.Int32         // number of goroutines that wait for the engine
	caller atomic.Uintptr       // goroutine of the owner while it runs a function of the application, else 0
	tasks  atomic.Pointer[Task] // pushed tasks, the last one first
	alone  bool                 // only one goroutine runs at a time
	_      [39]byte             // keeps the fields of the owner on separate cache lines

	// Only the owner may use the following fields.
	host      Host
	batch     *Task // tasks that are being carried out, the first one first
	leader    *Waiter
	waiting   [kinds]list.List[Waiter]
	asleep    bool   // the leader is asleep
	roused    bool   // Host.Rouse was called, and RouseDone was not called since
	armed     bool   // the application sleeps on its descriptor
	news      bool   // something has happened since the last call of AnnounceNews
	unseen    bool   // something has happened since the last call of TakeNews
	newsCount uint64 // number of times that AnnounceNews has reported news
	closed    bool   // Close was called, and no descriptor can be armed any more
	woken     int    // waiters woken since the last call of Woken

	background       *Waiter // the leader while no other goroutine waits, nil if there is none
	backgroundAsleep bool    // background is asleep, or about to take the engine after the sleep
	due              bool    // Host.Later was called, and background will be signaled
	led              bool    // another goroutine has waited since Host.Later was called
}

// New returns an engine without an owner.
func New(h Host) *Engine {
	return &Engine{host: h, alone: !platform.Simulated && runtime.GOMAXPROCS(0) == 1}
}

// Task is work for the owner. It is embedded in the object that it concerns, so that pushing does
// not allocate. The engine does not use a task any more once its Doer has been called.
type Task struct {
	next *Task
	do   Doer
}

// Doer carries out a task.
type Doer interface{ Do() }

// Of sets the Doer of the task.
func (t *Task) Of(d Doer) { t.do = d }

// Try takes the engine if it is free and no goroutine waits for it.
func (e *Engine) Try() bool {
	platform.Step()
	return e.wanted.Load() == 0 && e.owner.CompareAndSwap(0, 1) // [try]
}

// Retake takes the engine if it is free, even if goroutines wait for it. It is for a goroutine that
// has just freed the engine and finds a task, or has just pushed a task.
func (e *Engine) Retake() bool {
	platform.Step()
	return e.owner.CompareAndSwap(0, 1) // [retake]
}

// Free gives up the engine. The caller must then check for tasks (Pending).
func (e *Engine) Free() {
	platform.Step()
	e.owner.Store(0) // [free]
}

// Pending reports whether there are tasks.
func (e *Engine) Pending() bool {
	platform.Step()
	return e.tasks.Load() != nil // [look]
}

// Wanted reports whether a goroutine waits for the engine.
func (e *Engine) Wanted() bool { return e.wanted.Load() > 0 }

// Push leaves a task for the owner. The caller must then try to take the engine (Retake).
func (e *Engine) Push(t *Task) {
	for { // [push]
		old := e.tasks.Load()
		t.next = old
		platform.Step()
		if e.tasks.CompareAndSwap(old, t) {
			return
		}
	}
}

// Run carries out the pushed tasks in the order in which they were pushed. Only the owner may call
// it.
func (e *Engine) Run() {
	platform.Step()
	for t := e.tasks.Swap(nil); t != nil; { // [run]
		next := t.next
		t.next, e.batch = e.batch, t
		t = next
	}
	for e.batch != nil { // a field, not a local variable: a task may end the goroutine
		t := e.batch
		e.batch, t.next = t.next, nil
		t.do.Do()
	}
}

// How often a goroutine that does not get the engine tries again, with a CPU pause in between. The
// attempts of briefly take about as long as a short call, those of long take longer than parking.
const (
	shortSpins = 8
	longSpins  = 64
)

// spins returns n, or 0 if only one goroutine runs at a time, because then the owner cannot
// continue while another goroutine spins.
func (e *Engine) spins(n int) int {
	if e.alone {
		return 0
	}
	return n
}

// TryBriefly is Try, repeated for a moment. It is for goroutines that prefer a short wait to
// pushing a task.
func (e *Engine) TryBriefly() bool {
	for range e.spins(shortSpins) {
		cpu.Relax()
		platform.Step()
		if e.owner.Load() == 0 && e.Try() {
			return true
		}
	}
	return false
}

// Acquire takes the engine. It waits as long as necessary.
func (e *Engine) Acquire() {
	n := e.spins(longSpins)
	if e.spin(n) {
		return
	}
	platform.Step()
	e.wanted.Add(1) // [want]
	for !e.spin(n) {
		w := idleWakeTasks.Get().(*wakeTask)
		e.Push(&w.Task) // [wish]
		if e.Retake() {
			break // as the owner it will carry out the wish itself; the wish is not reused
		}
		platform.Step()
		platform.Receive(w.granted) // [granted]
		idleWakeTasks.Put(w)
	}
	e.wanted.Add(-1) // [served]
}

// spin tries to take the engine n+1 times.
func (e *Engine) spin(n int) bool {
	for {
		if e.owner.Load() == 0 && e.Retake() {
			return true
		}
		if n--; n < 0 {
			return false
		}
		cpu.Relax()
		platform.Step()
	}
}

// GiveWay lets a goroutine that waits for the engine take it first. It is for a goroutine that has
// just freed the engine, and may need it again at once.
func (e *Engine) GiveWay() {
	if e.Wanted() {
		e.giveWay()
	}
}

//go:noinline
func (e *Engine) giveWay() {
	for range e.spins(longSpins) {
		if e.owner.Load() != 0 || e.wanted.Load() == 0 {
			return
		}
		cpu.Relax()
		platform.Step()
	}
	platform.Yield()
}

// wakeTask is a task that wakes a goroutine that waits for the engine.
type wakeTask struct {
	Task
	granted chan struct{}
}

var idleWakeTasks = sync.Pool{New: func() any {
	w := &wakeTask{granted: make(chan struct{}, 1)}
	w.Of(w)
	return w
}}

// Do implements Doer.
func (w *wakeTask) Do() {
	platform.Step()
	w.granted <- struct{}{} // [grant]
}

// Call records that the owner is about to call a function of the application, which may call the
// library again.
func (e *Engine) Call() { e.caller.Store(uintptr(gid.Self())) }

// Return records that the outermost function of the application has returned.
func (e *Engine) Return() { e.caller.Store(0) }

// Nested reports whether the calling goroutine is the owner, inside a function of the application.
func (e *Engine) Nested() bool {
	caller := e.caller.Load()
	return caller != 0 && caller == uintptr(gid.Self())
}
