//go:build linux

package shm

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
)

// wakeSocket is a datagram socket with an abstract address of the kernel's
// choice. Senders that find a ring armed send it one byte. It is also what the
// interface's own wakeups are sent from.
type wakeSocket struct {
	fd   int
	name string            // without the leading zero byte
	to   unix.SockaddrUnix // where the wakeup that is being sent goes; endpoints keep only names
}

func (s *wakeSocket) open() error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return errWakeSocket(err)
	}
	var name string
	if err = unix.Bind(fd, &unix.SockaddrUnix{}); err == nil {
		var sa unix.Sockaddr
		if sa, err = unix.Getsockname(fd); err == nil {
			name = sa.(*unix.SockaddrUnix).Name
		}
	}
	if err == nil && (len(name) < 2 || name[0] != '@') {
		err = unix.EADDRNOTAVAIL
	}
	if err != nil {
		unix.Close(fd)
		return fmt.Errorf("shm: binding a socket for wakeups: %w: %w", err, ucs.ErrIO)
	}
	s.fd, s.name = fd, name[1:]
	return nil
}

// HandleEvent implements event.Handler: it takes what woke the worker, and what others
// have sent. What stays fills the socket up, and there has to be room for the datagram of
// the next sleep: its arrival is all that those hear who are told of events once.
func (s *wakeSocket) HandleEvent(event.Events) { sys.Discard(s.fd) }

func (s *wakeSocket) close() error { return unix.Close(s.fd) }

// wakeByte is what C UCX sends.
var wakeByte = []byte{0}

// wake sends a wakeup to a peer that has asked for one. What it does not read counts
// toward the buffer of the socket that sent it: if that is full, maybe for what others
// do not read, another socket is tried. If it is the peer's that is full the peer is
// awake anyway; if it is gone nothing can be done.
func (s *wakeSocket) wake(name string) {
	if name == "" {
		return
	}
	s.to.Name = name
	if sendWakeup(s.fd, &s.to) == unix.EAGAIN {
		wakeAnew(&s.to)
	}
}

// wakeAnew sends a wakeup from a socket of its own.
//
//go:noinline
func wakeAnew(to *unix.SockaddrUnix) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	sendWakeup(fd, to)
	unix.Close(fd)
}

func sendWakeup(fd int, to *unix.SockaddrUnix) error {
	for {
		err := unix.Sendto(fd, wakeByte, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, to)
		if err != unix.EINTR {
			return err
		}
	}
}
