//go:build simulate

package event

import (
	"context"
	"os"
	"time"

	"github.com/ucx-go/ucx/internal/platform"
)

// Sleeper lets a goroutine wait for a Set. One goroutine at a time may sleep, while any other polls
// the set. A set may have several sleepers.
type Sleeper struct {
	set    *Set
	closed bool
}

// NewSleeper returns a Sleeper that waits for a set.
func NewSleeper(set *Set) (*Sleeper, error) { return &Sleeper{set: set}, nil }

// Sleep waits until something in the set is ready, and returns nil. It returns the error of ctx
// when ctx ends, or os.ErrClosed when the sleeper is closed. It does not call handlers.
func (s *Sleeper) Sleep(ctx context.Context) error {
	for {
		rest, _ := s.set.rest()
		switch {
		case rest == 0:
			return ctx.Err()
		case ctx.Err() != nil:
			return ctx.Err()
		case s.closed:
			return os.ErrClosed
		}
		until := never
		if rest != never {
			until = monotonic() + rest
		}
		platform.Park(func() bool {
			now, _ := s.set.rest()
			earlier := now != never && (until == never || monotonic()+now < until)
			return earlier || ctx.Err() != nil || s.closed
		}, until)
	}
}

// Close closes the sleeper, and wakes the sleeping goroutine. Any goroutine may call it.
func (s *Sleeper) Close() error {
	s.closed = true
	return nil
}

// Next returns the time until something in the set is ready, 0 if something is ready now.
func (s *Set) Next() (rest time.Duration, ok bool) {
	rest, _ = s.rest()
	return rest, rest != never
}
