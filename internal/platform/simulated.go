//go:build simulate

package platform

import (
	"context"
	"io"
	"iter"
	"maps"
	"slices"
	"syscall"
	"time"
)

// Simulated reports whether this is a build for simulation.
const Simulated = true

// SpinRounds is the number of rounds in which a goroutine that spins looks neither at the clock nor
// for other goroutines. In a simulation nothing happens in the meantime.
const SpinRounds = 1

// SpinTime is how long a goroutine that waits spins. In a simulation a round takes little time and is
// not cheap, so it is short.
const SpinTime = 300 * time.Nanosecond

// World provides what programs take from the runtime. Package simnet has one. All methods are
// called by one goroutine at a time.
type World interface {
	// Now returns the time.
	Now() time.Duration

	// Uint64 returns a random number.
	Uint64() uint64

	// Process returns the current process, which is comparable; nil if there is none.
	Process() any

	// Pid returns the number of the current process.
	Pid() int

	// Claim takes n descriptors of the current process, or returns them if n is negative. Its error
	// is that of a system call that needs a descriptor.
	Claim(n int) error

	// Yield lets other goroutines of the world run. It does nothing if the caller is none of them.
	Yield()

	// Step is Yield at random: another goroutine may run between two steps of the caller.
	Step()

	// Park lets other goroutines of the world run until ready returns true, or the time is until.
	// ready is called only when something has happened in the caller's process.
	Park(ready func() bool, until time.Duration)

	// Go starts a goroutine of the caller's process.
	Go(f func())

	// After calls f at a time, in the caller's process. stop prevents the call, and reports whether
	// it has done so.
	After(at time.Duration, f func()) (stop func() bool)
}

// Errors of system calls that have reached a limit, for worlds.
var (
	ErrFiles  error = syscall.EMFILE
	ErrMemory error = syscall.ENOMEM
	ErrSpace  error = syscall.ENOSPC
)

// Never is a time that does not come.
const Never time.Duration = 1<<63 - 1

// world is the current world.
var world World = noWorld{}

// Enter makes w the world of all packages, and returns a function that restores the one before. Only
// one world exists at a time.
func Enter(w World) (leave func()) {
	before := world
	world = w
	return func() { world = before }
}

// Now returns the time in the world.
func Now() time.Duration { return world.Now() }

// Uint64 returns a random number.
func Uint64() uint64 { return world.Uint64() }

// Read fills b with random bytes.
func Read(b []byte) {
	for len(b) > 0 {
		x := world.Uint64()
		for k := 0; k < 8 && len(b) > 0; k++ {
			b[0], b = byte(x>>(8*k)), b[1:]
		}
	}
}

// Reader reads random bytes.
var Reader io.Reader = reader{}

type reader struct{}

func (reader) Read(b []byte) (int, error) {
	Read(b)
	return len(b), nil
}

// Yield lets other goroutines run.
func Yield() { world.Yield() }

// Rules counts how often the rules of the tables of state machines were applied, by the name of the
// machine.
var Rules = make(map[string][]int)

// Applied counts the use of a rule.
func Applied(machine string, rule int) {
	list := Rules[machine]
	for len(list) <= rule {
		list = append(list, 0)
	}
	list[rule]++
	Rules[machine] = list
}

// Step lets other goroutines run at random.
func Step() { world.Step() }

// Park waits until ready returns true, or until a time.
func Park(ready func() bool, until time.Duration) { world.Park(ready, until) }

// Go runs f in a goroutine.
func Go(f func()) { world.Go(f) }

// Receive waits until c has a value, and receives it.
func Receive(c <-chan struct{}) { ReceiveOr(context.Background(), c) }

// ReceiveOr waits until c has a value, and receives it, or until ctx ends. It reports whether it
// has received a value.
func ReceiveOr(ctx context.Context, c <-chan struct{}) (received bool) {
	world.Park(func() bool {
		select {
		case <-c:
			received = true
			return true
		default:
			return ctx.Err() != nil
		}
	}, Never)
	return received
}

// WithTimeout returns a context that ends with ctx, or after the time d.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	c := &timeout{Context: ctx, at: world.Now() + d, done: make(chan struct{})}
	stop := world.After(c.at, func() { c.end(context.DeadlineExceeded) })
	return c, func() { stop(); c.end(context.Canceled) }
}

// timeout is a context of WithTimeout. Its channel does not show the end of its parent.
type timeout struct {
	context.Context
	at   time.Duration
	err  error
	done chan struct{}
}

func (c *timeout) end(err error) {
	if c.err == nil {
		c.err = err
		close(c.done)
	}
}

// Done implements context.Context.
func (c *timeout) Done() <-chan struct{} { return c.done }

// Err implements context.Context.
func (c *timeout) Err() error {
	if c.err == nil {
		if err := c.Context.Err(); err != nil {
			c.end(err)
		}
	}
	return c.err
}

// Pid returns the number of the process.
func Pid() int { return world.Pid() }

// Claim takes n descriptors of the process, or returns them if n is negative.
func Claim(n int) error { return world.Claim(n) }

// attached has the event sets of objects.
var attached Local[map[any]any]

// Attach records which event set wakes an object.
func Attach(object, set any) {
	m := attached.Get()
	if *m == nil {
		*m = make(map[any]any)
	}
	(*m)[object] = set
}

// Attached returns the event set that wakes an object of the current process, nil if there is none.
func Attached(object any) any { return (*attached.Get())[object] }

// Ordered returns the entries of a map in the order of their values. Entries that are removed meanwhile
// do not come.
func Ordered[K comparable, V any](m map[K]V, order func(a, b V) int) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		keys := slices.SortedFunc(maps.Keys(m), func(a, b K) int { return order(m[a], m[b]) })
		for _, k := range keys {
			if v, ok := m[k]; ok && !yield(k, v) {
				return
			}
		}
	}
}

// Local is a variable of each process of the world.
type Local[T any] struct {
	values map[any]*T
	last   any // the process of the last call, and its variable
	value  *T
}

// Get returns the variable of the current process.
func (l *Local[T]) Get() *T {
	p := world.Process()
	if p == l.last && l.value != nil {
		return l.value
	}
	v := l.values[p]
	if v == nil {
		if v = new(T); l.values == nil {
			l.values = make(map[any]*T)
			forget = append(forget, func(p any) {
				delete(l.values, p)
				l.last, l.value = nil, nil
			})
		}
		l.values[p] = v
	}
	l.last, l.value = p, v
	return v
}

// forget has a function for each Local, which drops the variable of a process.
var forget []func(process any)

// Forget drops the variables of a process that has ended.
func Forget(process any) {
	for _, f := range forget {
		f(process)
	}
}

// Timer is a scheduled call of a function.
type Timer struct {
	f    func()
	stop func() bool
}

// AfterFunc calls f after the time d.
func AfterFunc(d time.Duration, f func()) *Timer {
	t := &Timer{f: f, stop: func() bool { return false }}
	t.Reset(d)
	return t
}

// Reset schedules the call again, d from now. It reports whether it was scheduled.
func (t *Timer) Reset(d time.Duration) bool {
	was := t.Stop()
	t.stop = world.After(world.Now()+d, func() {
		t.stop = func() bool { return false }
		t.f()
	})
	return was
}

// Stop cancels the call, and reports whether it was scheduled.
func (t *Timer) Stop() bool { return t.stop() }

// noWorld is the world outside of a simulation: time stands still.
type noWorld struct{}

var outside uint64 // number of random numbers that initializers have drawn

func (noWorld) Now() time.Duration                      { return 0 }
func (noWorld) Uint64() uint64                          { outside++; return outside * 0x9e3779b97f4a7c15 }
func (noWorld) Process() any                            { return nil }
func (noWorld) Pid() int                                { return 1 }
func (noWorld) Claim(int) error                         { return nil }
func (noWorld) Yield()                                  {}
func (noWorld) Step()                                   {}
func (noWorld) Go(func())                               { panic("platform: no world") }
func (noWorld) Park(func() bool, time.Duration)         { panic("platform: no world") }
func (noWorld) After(time.Duration, func()) func() bool { panic("platform: no world") }
