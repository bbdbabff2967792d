//go:build !simulate

package platform

import (
	"context"
	crand "crypto/rand"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"time"
)

// start is the origin of the clock.
var start = time.Now()

// Simulated reports whether this is a build for simulation.
const Simulated = false

// SpinRounds is the number of rounds in which a goroutine that spins looks neither at the clock nor
// for other goroutines.
const SpinRounds = 32

// SpinTime is how long a goroutine that waits spins.
const SpinTime = 50 * time.Microsecond

// Now returns the time since the process started. It does not jump.
func Now() time.Duration { return time.Since(start) }

// Uint64 returns a random number, which a peer may be able to guess.
func Uint64() uint64 { return rand.Uint64() }

// Reader reads random bytes that no peer can guess.
var Reader = crand.Reader

// Read fills b with random bytes that no peer can guess.
func Read(b []byte) { crand.Read(b) } // it never fails

// Yield lets other goroutines run.
func Yield() { runtime.Gosched() }

// Step is a point at which another goroutine may run in a simulation, between two accesses to memory
// that several goroutines use without a lock. It does nothing in a normal build.
func Step() {}

// Applied is told which rule of the table of a state machine applies. It does nothing in a normal build.
func Applied(machine string, rule int) {}

// Go runs f in a goroutine.
func Go(f func()) { go f() }

// Receive waits until c has a value, and receives it.
func Receive(c <-chan struct{}) { <-c }

// ReceiveOr waits until c has a value, and receives it, or until ctx ends. It reports whether it
// has received a value.
func ReceiveOr(ctx context.Context, c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

// WithTimeout returns a context that ends with ctx, or after the time d.
func WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// Pid returns the number of the process.
func Pid() int { return os.Getpid() }

// Claim takes n descriptors of the process, or returns them if n is negative, where the system does
// not do it by itself.
func Claim(int) error { return nil }

// Attach records which event set wakes an object, for a simulation that polls the object.
func Attach(object, set any) {}

// Ordered returns the entries of a map, in no order. In a simulation they come in the order of their
// values, and those that are removed meanwhile do not come.
func Ordered[K comparable, V any](m map[K]V, _ func(a, b V) int) iter.Seq2[K, V] { return maps.All(m) }

// Local is a variable of the process.
type Local[T any] struct{ value T }

// Get returns the variable.
func (l *Local[T]) Get() *T { return &l.value }

// Timer is a scheduled call of a function.
type Timer struct{ *time.Timer }

// AfterFunc calls f in a goroutine after the time d.
func AfterFunc(d time.Duration, f func()) *Timer { return &Timer{time.AfterFunc(d, f)} }
