//go:build !linux || simulate

package event

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/ucs"
)

// Set is a group of bells and timers. On this system it watches no descriptors and has none. Only
// the goroutine that polls may use it.
type Set struct {
	polling bool
	closed  bool

	mu      sync.Mutex
	wake    chan struct{} // closed when sleepers must check again, nil if no sleeper waits; guarded by mu
	sources []*source     // guarded by mu
}

// source is an entry of a set that can become ready.
type source struct {
	set     *Set
	handler Handler
	claimed bool          // a descriptor is charged for it
	at      time.Duration // time from which it is ready, or the constant never; guarded by set.mu
}

// NewSet makes an empty set.
func NewSet() (*Set, error) {
	if err := platform.Claim(1); err != nil {
		return nil, fmt.Errorf("event: a set: %w", err)
	}
	return new(Set), nil
}

// FD returns -1: the set has no descriptor.
func (s *Set) FD() int { return -1 }

// Len returns the number of bells and Timers in the set.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sources)
}

// Add returns ucs.ErrUnsupported, because no descriptor can be watched on this system.
func (s *Set) Add(fd int, _ Events, _ Handler) error { return errNoDescriptors(fd) }

// Modify returns ucs.ErrUnsupported.
func (s *Set) Modify(fd int, _ Events) error { return errNoDescriptors(fd) }

// Remove returns ucs.ErrUnsupported.
func (s *Set) Remove(fd int) error { return errNoDescriptors(fd) }

func errNoDescriptors(fd int) error {
	return fmt.Errorf("event: descriptor %d cannot be watched: no epoll on %s: %w", fd, runtime.GOOS, ucs.ErrUnsupported)
}

// Poll calls the handlers of the bells and timers that are ready now, and returns the number of
// calls. If a handler calls Poll, that call does nothing.
func (s *Set) Poll() int {
	if s.polling {
		return 0
	}
	s.polling = true
	ran := 0
	for _, src := range s.ready() {
		if src.rest() == 0 { // no handler of this round has cleared the source
			src.handler.HandleEvent(Read)
			ran++
		}
	}
	s.polling = false
	return ran
}

// ready returns the sources that are ready now.
func (s *Set) ready() (list []*source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := monotonic()
	for _, src := range s.sources {
		if src.at <= now {
			list = append(list, src)
		}
	}
	return list
}

// rest returns the time until the first source becomes ready, 0 if one is ready now. changed is
// closed when that time may have changed.
func (s *Set) rest() (rest time.Duration, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := never
	for _, src := range s.sources {
		first = min(first, src.at)
	}
	if s.wake == nil {
		s.wake = make(chan struct{})
	}
	return until(first), s.wake
}

func (src *source) rest() time.Duration {
	src.set.mu.Lock()
	defer src.set.mu.Unlock()
	return until(src.at)
}

func until(at time.Duration) time.Duration {
	if at == never {
		return never
	}
	return max(at-monotonic(), 0)
}

// add adds a source, which is not ready yet, to the set.
func (s *Set) add(src *source, h Handler) error {
	if err := platform.Claim(1); err != nil {
		return fmt.Errorf("event: a bell or an alarm: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	src.set, src.handler, src.at, src.claimed = s, h, never, true
	s.sources = append(s.sources, src)
	return nil
}

// remove removes the source from its set, which may be closed already.
func (src *source) remove() {
	s := src.set
	s.mu.Lock()
	defer s.mu.Unlock()
	if src.claimed {
		src.claimed = false
		platform.Claim(-1)
	}
	src.at = never
	s.sources = slices.DeleteFunc(s.sources, func(other *source) bool { return other == src })
}

// readyAt makes the source ready from a time on, or not ready if the time is never. It wakes the
// sleepers, which then check the set again.
func (src *source) readyAt(at time.Duration) {
	s := src.set
	s.mu.Lock()
	defer s.mu.Unlock()
	src.at = at
	if s.wake != nil {
		close(s.wake)
		s.wake = nil
	}
}

// Close empties the set. It is idempotent.
func (s *Set) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, src := range s.sources {
		src.at = never
	}
	s.sources = nil
	if !s.closed {
		s.closed = true
		platform.Claim(-1)
	}
	return nil
}
