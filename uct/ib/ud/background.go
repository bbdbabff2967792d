//go:build linux

package ud

import (
	"errors"
	"sync"
	"time"

	"github.com/ucx-go/ucx/ucs/async"
	"github.com/ucx-go/ucx/ucs/event"
)

// Background work. With UCX_UD_ASYNC a program may compute for any time between two calls of
// Progress. A goroutine checks ten times a second whether Progress was called since the last check.
// If it was not, the goroutine does the work that peers wait for (offline.go). An interface and its
// endpoints are then wrapped in types that take a lock for each call (guarded.go). Interfaces
// without UCX_UD_ASYNC take no lock.

// background is the lock of an interface, and the goroutine that takes the lock beside the worker's
// goroutine. ctx and depth belong to the worker's goroutine.
type background struct {
	mu    sync.Mutex
	depth int // nested calls of the worker's goroutine, the outermost of which holds the lock

	ctx    *async.Context
	rounds uint64 // under mu: calls of Progress
	seen   uint64 // under mu: value of rounds at the last check

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
func (b *background) start(work func()) (err error) {
	if b.ctx, err = async.New(async.ModeThread); err != nil {
		return err
	}
	if _, err = b.ctx.AddTimer(asyncTick, func(int, event.Events) { b.look(work) }); err != nil {
		return errors.Join(err, b.ctx.Close())
	}
	return nil
}

// look is the check of the goroutine.
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
