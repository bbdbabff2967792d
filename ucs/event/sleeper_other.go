//go:build !linux && !simulate

package event

import (
	"context"
	"os"
	"sync"
	"time"
)

// Sleeper lets a goroutine wait for a Set. One goroutine at a time may sleep, while any other polls
// the set. A set may have several sleepers.
type Sleeper struct {
	set    *Set
	closed chan struct{}
	once   sync.Once
}

// NewSleeper returns a Sleeper that waits for a set.
func NewSleeper(set *Set) (*Sleeper, error) {
	return &Sleeper{set: set, closed: make(chan struct{})}, nil
}

// Sleep waits until something in the set is ready, and returns nil. It returns the error of ctx
// when ctx ends, or os.ErrClosed when the sleeper is closed. It does not call handlers.
func (s *Sleeper) Sleep(ctx context.Context) error {
	for {
		rest, changed := s.set.rest()
		if rest == 0 {
			return ctx.Err()
		}
		due := time.NewTimer(rest)
		var err error
		select {
		case <-changed:
		case <-due.C:
		case <-ctx.Done():
			err = ctx.Err()
		case <-s.closed:
			err = os.ErrClosed
		}
		due.Stop()
		if err != nil {
			return err
		}
	}
}

// Close closes the sleeper, and wakes the sleeping goroutine. Any goroutine may call it.
func (s *Sleeper) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}
