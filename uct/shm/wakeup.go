//go:build linux

package shm

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
)

// wakeSocket is a datagram socket with an abstract address that the kernel chose. A sender that
// finds the interface's ring armed sends one byte to this socket. The interface sends its own
// wakeups from this socket, too.
type wakeSocket struct {
	fd   int
	name string // abstract address of the socket, without the leading zero byte
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

// HandleEvent implements event.Handler: it reads and discards all datagrams. Datagrams that
// stay would fill up the socket, which must have room for the datagram of the next sleep: an
// edge-triggered wait sees only the arrival of a datagram.
func (s *wakeSocket) HandleEvent(event.Events) { sys.Discard(s.fd) }

func (s *wakeSocket) close() error { return unix.Close(s.fd) }

// wakeByte is the datagram of a wakeup, as C UCX sends it.
var wakeByte = []byte{0}

// wake sends a wakeup to the socket with the given name, of a peer that has requested one.
// Datagrams that a receiver does not read count toward the send buffer of the sending socket. If
// that buffer is full, maybe because of other peers, the wakeup is sent from another socket. If the
// peer's own socket is full the peer is awake anyway. If the peer's socket does not exist any more,
// nothing can be done.
func (s *wakeSocket) wake(name string) {
	if name != "" && sys.SendTo(s.fd, wakeByte, name) == unix.EAGAIN {
		wakeAnew(name)
	}
}

// wakeAnew sends a wakeup from a new socket.
//
//go:noinline
func wakeAnew(name string) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	sys.SendTo(fd, wakeByte, name)
	unix.Close(fd)
}
