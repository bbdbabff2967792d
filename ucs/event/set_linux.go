package event

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
)

// maxEvents bounds what one Poll takes from the kernel. More readiness than
// that stays pending for the next Poll; the kernel takes turns among the ready
// descriptors, so none starves.
const maxEvents = 64

// slot is one registration. A slot number is reused only with another
// generation, so a stale event of a removed descriptor is never delivered to
// its successor.
type slot struct {
	handler Handler // nil: free
	gen     uint32
}

// Set is a group of descriptors that are watched together. All methods belong to one
// goroutine at a time; any goroutine may use the descriptor that FD returns.
type Set struct {
	fd      int // -1 after Close
	polling bool
	slots   []slot
	free    []int32
	byFD    map[int]int32
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

// FD returns the epoll descriptor, -1 after Close. It is readable while a
// watched descriptor is ready. It belongs to the Set.
func (s *Set) FD() int { return s.fd }

// Len returns the number of watched descriptors.
func (s *Set) Len() int { return len(s.byFD) }

// Add watches fd for ev and delivers to h. A descriptor is watched at most once:
// a second time gives an error that matches ucs.ErrAlreadyExists.
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

// Modify changes what fd is watched for. With no events it is watched for Err
// and Hup only.
func (s *Set) Modify(fd int, ev Events) error {
	i, ok := s.byFD[fd]
	if !ok {
		return errNotWatched(fd)
	}
	return s.ctl(unix.EPOLL_CTL_MOD, fd, ev, i, s.slots[i].gen)
}

// Remove stops watching fd; its handler is not called any more, not even for
// what the running Poll has already taken from the kernel. It must be called
// before fd is closed.
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

// Poll takes what is ready now, with one system call and without waiting, and
// runs the handlers. It returns the number of handlers run. Called by a handler
// it does nothing.
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

// ctl calls epoll_ctl. The 64 bits of user data hold the slot and its
// generation.
func (s *Set) ctl(op, fd int, ev Events, i int32, gen uint32) error {
	e := unix.EpollEvent{Events: uint32(ev), Fd: i, Pad: int32(gen)}
	if err := unix.EpollCtl(s.fd, op, fd, &e); err != nil {
		return fmt.Errorf("event: epoll_ctl of descriptor %d: %w", fd, withLimit(err))
	}
	return nil
}

// withLimit adds to the error of epoll_ctl which limit it met, and how to get more.
func withLimit(err error) error {
	if err != unix.ENOSPC {
		return err
	}
	most, _ := sys.ReadFile("/proc/sys/fs/epoll/max_user_watches")
	return fmt.Errorf("%w: the user watches %s descriptors in all sets, raise the limit (sysctl fs.epoll.max_user_watches)",
		err, bytes.TrimSpace(most))
}

func errNotWatched(fd int) error {
	return fmt.Errorf("event: descriptor %d is not watched: %w", fd, ucs.ErrNoElem)
}
