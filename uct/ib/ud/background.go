//go:build linux

package ud

import (
	"errors"
	"sync"
	"time"

	"github.com/ucx-go/ucx/ucs/async"
	"github.com/ucx-go/ucx/ucs/event"
)

// With UCX_UD_ASYNC a program may compute for as long as it likes between two calls of
// Progress: a goroutine looks ten times a second whether somebody has called meanwhile, and
// does otherwise what peers would miss (offline.go). For that an interface and its
// endpoints are wrapped in types that take a lock for each call (guarded.go). Others know
// nothing of it.

// background is the lock of an interface, and who else takes it. All but mu and what is said
// to be under it belongs to the worker's goroutine.
type background struct {
	mu    sync.Mutex
	depth int // calls of the worker's goroutine inside each other, the first of which has the lock

	ctx    *async.Context
	rounds uint64 // under mu: calls of Progress
	seen   uint64 // under mu: those that were known at the last look

	clock event.Clock   // of the goroutine
	now   time.Duration // likewise
}

// enter begins a call. Callbacks are made with the lock, and may call.
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

// start starts the goroutine. It calls work with the lock while nobody else calls anything.
func (b *background) start(work func()) (err error) {
	if b.ctx, err = async.New(async.ModeThread); err != nil {
		return err
	}
	if _, err = b.ctx.AddTimer(asyncTick, func(int, event.Events) { b.look(work) }); err != nil {
		return errors.Join(err, b.ctx.Close())
	}
	return nil
}

// look is called by the goroutine.
func (b *background) look(work func()) {
	if !b.mu.TryLock() {
		return // somebody is at it
	}
	defer b.mu.Unlock()
	if b.rounds != b.seen {
		b.seen = b.rounds
		return
	}
	b.rounds++ // so that a look is not taken for a call
	b.seen = b.rounds
	b.now = b.clock.Again(b.rounds)
	work()
}
