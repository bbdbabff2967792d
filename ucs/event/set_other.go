//go:build !linux

package event

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// Set is a group of events. On this system these are bells and timers; the set watches no
// descriptors and has none. It belongs to the goroutine that polls.
type Set struct {
	polling bool

	mu      sync.Mutex
	wake    chan struct{} // closed where sleepers have to look again, nil if there are none; guarded by mu
	sources []*source     // guarded by mu
}

// source is what can become ready in a set.
type source struct {
	set     *Set
	handler Handler
	at      time.Duration // when it is ready: 0 at once, never; guarded by set.mu
}

// NewSet makes an empty set.
func NewSet() (*Set, error) { return new(Set), nil }

// FD returns -1: the set has no descriptor.
func (s *Set) FD() int { return -1 }

// Len returns the number of bells and groups of timers.
func (s *Set) Len() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sources)
}

// Add gives ucs.ErrUnsupported, as Modify and Remove do.
func (s *Set) Add(fd int, _ Events, _ Handler) error { return errNoDescriptors(fd) }

// Modify gives ucs.ErrUnsupported.
func (s *Set) Modify(fd int, _ Events) error { return errNoDescriptors(fd) }

// Remove gives ucs.ErrUnsupported.
func (s *Set) Remove(fd int) error { return errNoDescriptors(fd) }

func errNoDescriptors(fd int) error {
	return fmt.Errorf("event: descriptor %d cannot be watched: no epoll on %s: %w", fd, runtime.GOOS, ucs.ErrUnsupported)
}

// Poll runs the handlers of what is ready now and returns their number. Called by a
// handler it does nothing.
func (s *Set) Poll() int {
	if s.polling {
		return 0
	}
	s.polling = true
	ran := 0
	for _, src := range s.ready() {
		if src.rest() == 0 { // no handler of this round has ended that
			src.handler.HandleEvent(Read)
			ran++
		}
	}
	s.polling = false
	return ran
}

// ready returns what was ready when it was called.
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

// rest is how long nothing becomes ready by itself: 0 where something is. changed is closed
// when that has changed.
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

// add puts a source into the set, that is not ready.
func (s *Set) add(src *source, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	src.set, src.handler, src.at = s, h, never
	s.sources = append(s.sources, src)
}

// remove takes it out. The set may be closed already.
func (src *source) remove() {
	s := src.set
	s.mu.Lock()
	defer s.mu.Unlock()
	src.at = never
	s.sources = slices.DeleteFunc(s.sources, func(other *source) bool { return other == src })
}

// readyAt makes the source ready at a time, and sleepers look again.
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
	return nil
}
