//go:build !simulate

package event

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
)

// maxEvents bounds the number of events that one Poll takes from the kernel. Further events stay
// pending for the next Poll; the kernel takes turns among the ready descriptors, so none starves.
const maxEvents = 64

// slot is the registration of one watched descriptor. A slot is reused only with another
// generation, so a stale event of a removed descriptor is never delivered to the handler of a
// later one.
type slot struct {
	handler Handler // nil if the slot is free
	gen     uint32  // generation
}

// Set is a group of descriptors that are watched together. One goroutine at a time may call its
// methods; any goroutine may use the descriptor that FD returns.
type Set struct {
	fd      int // the epoll descriptor, -1 after Close
	polling bool
	slots   []slot
	free    []int32       // indices of free slots
	byFD    map[int]int32 // index of the slot of each watched descriptor
	events  [maxEvents]unix.EpollEvent
}

// NewSet opens an epoll instance.
func NewSet() (*Set, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("event: epoll_create1: %w", sys.WithLimit(err))
	}
	return &Set{fd: fd, byFD: make(map[int]int32)}, nil
}

// FD returns the epoll descriptor, -1 after Close. It is readable while a watched descriptor is
// ready. The Set closes it in Close.
func (s *Set) FD() int { return s.fd }

// Len returns the number of watched descriptors.
func (s *Set) Len() int { return len(s.byFD) }

// Add watches the descriptor fd for the events ev, which Poll delivers to h. If the descriptor is
// watched already, the error matches ucs.ErrAlreadyExists.
func (s *Set) Add(fd int, ev Events, h Handler) error {
	if _, dup := s.byFD[fd]; dup {
		return fmt.Errorf("event: descriptor %d is already watched: %w", fd, ucs.ErrAlreadyExists)
	}
	var i int32
	if n := len(s.free); n > 0 {
		i = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		i = int32(len(s.slots))
		s.slots = append(s.slots, slot{})
	}
	sl := &s.slots[i]
	if err := s.ctl(unix.EPOLL_CTL_ADD, fd, ev, i, sl.gen); err != nil {
		s.free = append(s.free, i)
		return err
	}
	sl.handler = h
	s.byFD[fd] = i
	return nil
}

// Modify changes the events for which the descriptor fd is watched. With no events it is watched
// for Err and Hup only.
func (s *Set) Modify(fd int, ev Events) error {
	i, ok := s.byFD[fd]
	if !ok {
		return errNotWatched(fd)
	}
	return s.ctl(unix.EPOLL_CTL_MOD, fd, ev, i, s.slots[i].gen)
}

// Remove stops watching fd. Its handler is not called any more, not even for events that the
// running Poll has already taken from the kernel. Call it before fd is closed.
func (s *Set) Remove(fd int) error {
	i, ok := s.byFD[fd]
	if !ok {
		return errNotWatched(fd)
	}
	delete(s.byFD, fd)
	s.slots[i] = slot{gen: s.slots[i].gen + 1}
	s.free = append(s.free, i)
	return s.ctl(unix.EPOLL_CTL_DEL, fd, 0, 0, 0)
}

// Poll takes the pending events, with one system call and without waiting, and calls their
// handlers. It returns the number of handlers called. If a handler calls Poll, that call does
// nothing.
func (s *Set) Poll() int {
	if s.polling {
		return 0
	}
	s.polling = true
	n := sys.EpollPoll(s.fd, s.events[:])
	ran := 0
	for k := range n {
		e := &s.events[k]
		if int(e.Fd) >= len(s.slots) {
			break // a handler closed the set
		}
		sl := &s.slots[e.Fd]
		if sl.handler == nil || sl.gen != uint32(e.Pad) {
			continue // removed by an earlier handler of this round
		}
		sl.handler.HandleEvent(Events(e.Events))
		ran++
	}
	s.polling = false
	return ran
}

// Close closes the epoll instance. The watched descriptors stay open: they belong to the
// callers that added them. Close is idempotent; afterwards nothing is watched and nothing
// can be added.
func (s *Set) Close() error {
	if s.fd < 0 {
		return nil
	}
	err := unix.Close(s.fd)
	s.fd, s.slots, s.byFD, s.free = -1, nil, nil, nil
	return err
}

// ctl calls epoll_ctl. The 64 bits of user data hold the index of the slot and its generation.
func (s *Set) ctl(op, fd int, ev Events, i int32, gen uint32) error {
	e := unix.EpollEvent{Events: uint32(ev), Fd: i, Pad: int32(gen)}
	if err := unix.EpollCtl(s.fd, op, fd, &e); err != nil {
		return fmt.Errorf("event: epoll_ctl of descriptor %d: %w", fd, withLimit(err))
	}
	return nil
}

// withLimit adds to an ENOSPC error of epoll_ctl the limit on watched descriptors and the setting
// that raises it.
func withLimit(err error) error {
	if err != unix.ENOSPC {
		return err
	}
	most, _ := sys.ReadFile("/proc/sys/fs/epoll/max_user_watches")
	return fmt.Errorf("%w: all epoll sets of the user may watch %s descriptors, raise the limit (sysctl fs.epoll.max_user_watches)",
		err, bytes.TrimSpace(most))
}

func errNotWatched(fd int) error {
	return fmt.Errorf("event: descriptor %d is not watched: %w", fd, ucs.ErrNoElem)
}
