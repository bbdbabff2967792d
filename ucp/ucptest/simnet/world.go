//go:build simulate

package simnet

import (
	"container/heap"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/ucx-go/ucx/internal/platform"
)

// World is a simulated cluster. Only one goroutine may use it, except that the goroutines of its
// processes use it while they run.
type World struct {
	Net *Net

	seed      uint64
	rng       *rand.Rand
	now       time.Duration
	events    events
	lastEvent int // number of the last event
	lastTask  int
	runnable  []*task
	running   *task    // nil while an event runs
	process   *Process // process of the running task or event
	processes []*Process
	digest    uint64
	leave     func()
	failure   error
	watching  int // tasks that wait for something in other processes

	// Count counts what has happened.
	Count Counts
}

// Counts counts what happens in a world.
type Counts struct {
	Tasks, Events  uint64 // runs of goroutines, and events
	Killed, Frozen uint64 // processes
	Vanished       uint64 // hosts
	Cuts           uint64 // ways
	Lost           uint64 // messages that were sent again
	Datagrams      uint64 // datagrams that were lost or doubled
	Refused        uint64 // requests of resources that were refused
}

// Times of the processor. Time passes while goroutines run, so that one that polls ends sometime.
const (
	stepTime  = 20 * time.Nanosecond // of each run of a goroutine
	yieldTime = time.Microsecond     // of a goroutine that yields while no other can run
)

var _ platform.World = (*World)(nil)

// New makes a world and makes it the current one (platform.Enter), until Close. Only one world
// exists at a time.
func New(seed uint64) *World {
	w := &World{seed: seed, rng: rand.New(rand.NewPCG(seed, 0x5eed)), now: time.Millisecond}
	w.Net = newNet(w)
	w.leave = platform.Enter(w)
	current = w
	return w
}

// Close ends all processes and the world.
func (w *World) Close() {
	for _, p := range w.processes {
		p.Kill()
	}
	w.leave()
	current = nil
}

// Now implements platform.World.
func (w *World) Now() time.Duration { return w.now }

// Uint64 implements platform.World.
func (w *World) Uint64() uint64 { return w.rng.Uint64() }

// Rand returns the random source of the world.
func (w *World) Rand() *rand.Rand { return w.rng }

// Process implements platform.World.
func (w *World) Process() any {
	if w.process == nil {
		return nil
	}
	return w.process
}

// Pid implements platform.World.
func (w *World) Pid() int {
	if w.process == nil {
		return 1
	}
	return int(w.process.place.Process)
}

// Digest returns a hash over all that the world has done.
func (w *World) Digest() uint64 { return w.digest }

// Steps returns the number of times that a goroutine has run, or an event.
func (w *World) Steps() uint64 { return w.Count.Tasks + w.Count.Events }

// note adds numbers to the digest.
func (w *World) note(numbers ...uint64) {
	for _, n := range numbers {
		d := (w.digest ^ n) * 0x9e3779b97f4a7c15
		w.digest = d ^ d>>29
	}
}

// event is something that happens at a time.
type event struct {
	at      time.Duration
	number  int // order of events of one time
	process *Process
	do      func()
	index   int  // in the heap, -1 if the event is not in it
	over    bool // it has happened, or must not
}

// schedule schedules an event of a process, or of none. An event of a process that has ended does
// not happen.
func (w *World) schedule(at time.Duration, p *Process, do func()) *event {
	w.lastEvent++
	e := &event{at: max(at, w.now), number: w.lastEvent, process: p, do: do}
	heap.Push(&w.events, e)
	return e
}

// At calls do at a time, in no process. do must not call the library.
func (w *World) At(at time.Duration, do func()) { w.schedule(at, nil, do) }

// After implements platform.World.
func (w *World) After(at time.Duration, f func()) (stop func() bool) {
	e := w.schedule(at, w.process, f)
	return func() bool {
		if e.over {
			return false
		}
		w.cancel(e)
		return true
	}
}

// cancel makes an event not happen.
func (w *World) cancel(e *event) {
	e.over = true
	if e.index >= 0 {
		heap.Remove(&w.events, e.index)
	}
}

// reschedule schedules an event that could not happen at its time.
func (w *World) reschedule(e *event) {
	if !e.over {
		e.at = w.now
		heap.Push(&w.events, e)
	}
}

// Run runs the world until a time, or until nothing is left to happen, or until done, which may be
// nil, returns true. It returns the error of the first goroutine that has panicked.
func (w *World) Run(until time.Duration, done func() bool) error {
	for w.failure == nil && (done == nil || !done()) {
		due := len(w.events) > 0 && w.events[0].at <= w.now
		switch {
		case len(w.runnable) > 0 && !(due && w.rng.Uint64()&1 == 0):
			if w.now > until {
				return w.failure
			}
			k := w.rng.IntN(len(w.runnable))
			t := w.runnable[k]
			last := len(w.runnable) - 1
			w.runnable[k] = w.runnable[last]
			w.runnable = w.runnable[:last]
			if t.process.frozen {
				t.process.stopped = append(t.process.stopped, t)
				continue
			}
			w.resume(t)
		case len(w.events) == 0 || w.events[0].at > until:
			w.now = max(w.now, min(until, platform.Never-1))
			return w.failure
		default:
			e := heap.Pop(&w.events).(*event)
			w.now = max(w.now, e.at)
			w.happen(e)
		}
	}
	return w.failure
}

func (w *World) happen(e *event) {
	w.Count.Events++
	if p := e.process; p != nil && p.ended {
		return
	} else if p != nil && p.frozen {
		p.delayed = append(p.delayed, e)
		return
	}
	e.over = true
	w.note(uint64(e.at), uint64(e.number))
	w.process = e.process
	e.do()
	w.process = nil
	w.check(e.process)
}

// task is a goroutine of a process.
type task struct {
	number  int
	process *Process
	name    string
	next    func() (struct{}, bool)
	yield   func(struct{}) bool
	stop    func()
	ready   func() bool // what the task waits for; nil if it can run
	wakeup  *event      // end of a wait
	watches bool        // it waits for something in other processes
	over    bool
}

// killed is the panic of a task whose process has ended.
type killed struct{}

// start starts a task of a process.
func (w *World) start(p *Process, name string, f func()) {
	w.lastTask++
	t := &task{number: w.lastTask, process: p, name: name}
	t.next, t.stop = iter.Pull(func(yield func(struct{}) bool) {
		t.yield = yield
		defer func() {
			t.over = true
			switch v := recover(); v.(type) {
			case nil, killed:
			default:
				if w.failure == nil {
					w.failure = fmt.Errorf("%s of process %s: panic: %v\n%s", t.name, p.name, v, debug.Stack())
				}
			}
		}()
		f()
	})
	p.tasks = append(p.tasks, t)
	w.runnable = append(w.runnable, t)
}

// resume runs a task until it waits.
func (w *World) resume(t *task) {
	w.Count.Tasks++
	w.now += stepTime
	w.note(uint64(w.now), uint64(t.number)|1<<32)
	w.running, w.process = t, t.process
	t.next()
	w.running, w.process = nil, nil
	if t.over {
		t.process.drop(t)
	}
	w.check(t.process)
}

// check makes the tasks runnable whose wait is over, after something has happened in a process.
func (w *World) check(p *Process) {
	if p != nil {
		p.check(false)
	}
	if w.watching == 0 {
		return
	}
	for _, o := range w.processes {
		if o != p {
			o.check(true)
		}
	}
}

// Yield implements platform.World.
func (w *World) Yield() {
	t := w.running
	if t == nil {
		return
	}
	if len(w.runnable) == 0 && (len(w.events) == 0 || w.events[0].at > w.now) {
		w.now += yieldTime
		if len(w.events) > 0 {
			w.now = min(w.now, w.events[0].at)
		}
	}
	w.runnable = append(w.runnable, t)
	w.pass(t)
}

// Step implements platform.World.
func (w *World) Step() {
	t := w.running
	if t == nil || len(w.runnable) == 0 && (len(w.events) == 0 || w.events[0].at > w.now) || w.rng.Uint64()&3 != 0 {
		return
	}
	w.runnable = append(w.runnable, t)
	w.pass(t)
}

// pass lets others run until the world resumes the task.
func (w *World) pass(t *task) {
	if !t.yield(struct{}{}) {
		panic(killed{})
	}
}

// Park implements platform.World.
func (w *World) Park(ready func() bool, until time.Duration) {
	t := w.running
	if t == nil {
		panic("simnet: a wait outside of the world's goroutines")
	}
	if ready() {
		return
	}
	t.ready = ready
	if until != platform.Never {
		t.wakeup = w.schedule(until, t.process, func() { w.wake(t) })
	}
	w.pass(t)
}

// wake makes a waiting task runnable.
func (w *World) wake(t *task) {
	t.ready = nil
	if t.wakeup != nil {
		w.cancel(t.wakeup)
	}
	t.wakeup = nil
	w.runnable = append(w.runnable, t)
}

// Go implements platform.World.
func (w *World) Go(f func()) { w.start(w.process, "goroutine", f) }

// events orders events by time.
type events []*event

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].number < h[j].number
}
func (h events) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}
func (h *events) Push(x any) {
	e := x.(*event)
	e.index = len(*h)
	*h = append(*h, e)
}
func (h *events) Pop() any {
	old := *h
	e := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	e.index = -1
	return e
}
