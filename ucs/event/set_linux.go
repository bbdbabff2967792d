// Package event delivers readiness of file descriptors and expiry of timers.
//
// A Set is one epoll instance. Its owner polls it from one goroutine; the
// instance's own descriptor becomes readable when something is pending, so a
// Set can be waited on by any other poller, Go's included.
package event

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs/sys"
)

// Events is a bit set of readiness kinds.
type Events uint32

// Readiness kinds, with the kernel's numbers (EPOLL* in linux/eventpoll.h).
const (
	Read  Events = unix.EPOLLIN
	Write Events = unix.EPOLLOUT
	Err   Events = unix.EPOLLERR
	Hup   Events = unix.EPOLLHUP
	Edge  Events = unix.EPOLLET
)

// Handler receives the readiness of one descriptor.
type Handler interface {
	// HandleEvent runs inside Poll, on the polling goroutine. It may add,
	// change and remove descriptors of the same Set.
	HandleEvent(ev Events)
}

// maxEvents bounds what one Poll takes from the kernel. More readiness than
// that stays pending for the next Poll.
const maxEvents = 64

// slot is one registration. A slot number is reused only with another
// generation, so a stale event of a removed descriptor is never delivered to
// its successor.
type slot struct {
	handler Handler
	fd      int32
	gen     uint32
}

// Set is a group of descriptors that are watched together. All methods but FD
// belong to one goroutine at a time.
type Set struct {
	fd     int
	slots  []slot
	free   []int32
	byFD   map[int]int32
	events [maxEvents]unix.EpollEvent
}

// NewSet opens an epoll instance.
func NewSet() (*Set, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("event: epoll_create1: %w", err)
	}
	return &Set{fd: fd, byFD: make(map[int]int32)}, nil
}

// FD returns the epoll descriptor. It is readable while a watched descriptor is
// ready. It belongs to the Set.
func (s *Set) FD() int { return s.fd }

// Len returns the number of watched descriptors.
func (s *Set) Len() int { return len(s.byFD) }

// Add watches fd for ev and delivers to h. A descriptor is watched at most once.
func (s *Set) Add(fd int, ev Events, h Handler) error {
	if _, dup := s.byFD[fd]; dup {
		return fmt.Errorf("event: descriptor %d is already watched", fd)
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
	sl.handler, sl.fd = h, int32(fd)
	s.byFD[fd] = i
	return nil
}

// Modify changes what fd is watched for.
func (s *Set) Modify(fd int, ev Events) error {
	i, ok := s.byFD[fd]
	if !ok {
		return fmt.Errorf("event: descriptor %d is not watched", fd)
	}
	return s.ctl(unix.EPOLL_CTL_MOD, fd, ev, i, s.slots[i].gen)
}

// Remove stops watching fd. It must be called before fd is closed.
func (s *Set) Remove(fd int) error {
	i, ok := s.byFD[fd]
	if !ok {
		return fmt.Errorf("event: descriptor %d is not watched", fd)
	}
	delete(s.byFD, fd)
	s.slots[i] = slot{gen: s.slots[i].gen + 1, fd: -1}
	s.free = append(s.free, i)
	return s.ctl(unix.EPOLL_CTL_DEL, fd, 0, 0, 0)
}

// Poll takes what is ready now, with one system call and without waiting, and
// runs the handlers. It returns the number of handlers run.
func (s *Set) Poll() int {
	n := sys.EpollPoll(s.fd, s.events[:])
	ran := 0
	for k := 0; k < n; k++ {
		e := &s.events[k]
		sl := &s.slots[e.Fd]
		if sl.handler == nil || sl.gen != uint32(e.Pad) {
			continue // removed by an earlier handler of this round
		}
		sl.handler.HandleEvent(Events(e.Events))
		ran++
	}
	return ran
}

// Close closes the epoll instance. The watched descriptors stay open: they
// belong to whoever added them.
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
		return fmt.Errorf("event: epoll_ctl of descriptor %d: %w", fd, err)
	}
	return nil
}
