//go:build linux

package ud

import (
	"sync"
	"time"

	"github.com/ucx-go/ucx/ucs/event"
)

// Background work. With UCX_UD_ASYNC a program may compute for any time between two calls of
// Progress. A goroutine checks ten times a second whether Progress was called since the last check.
// If it was not, the goroutine does the work that peers wait for (offline.go). An interface and its
// endpoints are then wrapped in types that take a lock for each call (guarded.go). Interfaces
// without UCX_UD_ASYNC take no lock.

// background holds the lock of an interface, and the goroutine that takes it beside the worker's
// goroutine. Only the worker's goroutine uses the field depth.
type background struct {
	mu    sync.Mutex
	depth int // nested calls of the worker's goroutine, the outermost of which holds the lock

	stop   chan struct{} // closed to end the goroutine
	ended  chan struct{} // closed at the end of the goroutine
	rounds uint64        // under mu: calls of Progress
	seen   uint64        // under mu: value of rounds at the last check

	clock event.Clock   // of the background goroutine
	now   time.Duration // of the background goroutine
}

// enter begins a call, and takes the lock unless the worker's goroutine holds it. Callbacks run with
// the lock held, and may call enter.
func (b *background) enter() {
	if b.depth == 0 {
		b.mu.Lock()
	}
	b.depth++
}

func (b *background) leave() {
	if b.depth--; b.depth == 0 {
		b.mu.Unlock()
	}
}

const asyncTick = 100 * time.Millisecond // ASYNC_TIMER_TICK of C

// start starts the goroutine. The goroutine calls work, with the lock held, while the application
// does not call Progress.
func (b *background) start(work func()) {
	b.stop, b.ended = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(b.ended)
		ticker := time.NewTicker(asyncTick)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				b.look(work)
			case <-b.stop:
				return
			}
		}
	}()
}

// close ends the goroutine and waits for its end. The caller may hold the lock, because look does
// not wait for the lock.
func (b *background) close() {
	close(b.stop)
	<-b.ended
}

// look calls work, with the lock held, if Progress was not called since the last look.
func (b *background) look(work func()) {
	if !b.mu.TryLock() {
		return // the worker's goroutine is in a call
	}
	defer b.mu.Unlock()
	if b.rounds != b.seen {
		b.seen = b.rounds
		return
	}
	b.rounds++ // a round of its own, which does not count as a call of Progress
	b.seen = b.rounds
	b.now = b.clock.Again(b.rounds)
	work()
}
