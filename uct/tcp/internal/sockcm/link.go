//go:build linux

package sockcm

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/tcp/internal/inet"
)

// link is a socket with what has been said on it.
type link struct {
	machine
	fd            int // -1: closed
	local, remote netip.AddrPort
}

// readMessage reads what is there, with one call, into buf, and returns the message that is
// whole with that, if any.
func (l *link) readMessage(buf []byte) (msg message, whole bool, err error) {
	n, errno := sys.Recv(l.fd, buf)
	switch {
	case errno == unix.EAGAIN:
		return msg, false, nil
	case errno != 0:
		return msg, false, l.broken("read", errno)
	case n == 0:
		return msg, false, l.broken("read", errEnd)
	}
	if msg, whole, err = l.receive(buf[:n]); err != nil {
		err = l.broken("read", err)
	}
	return msg, whole, err
}

// tell writes what is to be said, as far as the kernel takes it.
func (l *link) tell() error {
	for len(l.out) > 0 {
		n, errno := sys.Send(l.fd, l.out, 0)
		switch errno {
		case 0:
			l.wrote(n)
		case unix.EAGAIN:
			return nil
		default:
			return l.broken("write", errno)
		}
	}
	return nil
}

// broken is the error of a connection that ends for a cause.
func (l *link) broken(operation string, cause error) error {
	var s ucs.Status
	switch status := l.statusOf(cause); {
	case errors.As(cause, &s):
	case cause == errEnd && status == ucs.ErrConnectionReset:
		cause = statuserr.Matching(cause, status)
	default:
		cause = statuserr.New(sys.WithLimit(cause), status)
	}
	if !l.local.IsValid() { // it was never connected
		return fmt.Errorf("tcp: connection manager: %s to %v: %w", operation, l.remote, cause)
	}
	return fmt.Errorf("tcp: connection manager: %s %v to %v: %w", operation, l.local, l.remote, cause)
}

// statusOf is the status of a connection that ends for a cause
// (uct_tcp_sockcm_event_err_to_ucs_err_log, uct_tcp_sockcm_ep_handle_remote_disconnect).
func (l *link) statusOf(cause error) ucs.Status {
	var errno unix.Errno
	if l.lost() == ucs.ErrNotConnected && errors.As(cause, &errno) {
		switch errno {
		case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.ENETDOWN, unix.EHOSTDOWN, unix.ETIMEDOUT:
			return ucs.ErrUnreachable
		case unix.ECONNREFUSED, unix.ECONNRESET, unix.ECONNABORTED, unix.EPIPE, unix.ENOTCONN:
		default:
			return ucs.ErrIO
		}
	}
	return l.lost()
}

// locate finds out where the ends are.
func (l *link) locate() error {
	local, err := syscall.Getsockname(l.fd)
	if err != nil {
		return err
	}
	remote, err := syscall.Getpeername(l.fd)
	if err != nil {
		return err
	}
	l.local, l.remote = inet.AddrPort(local), inet.AddrPort(remote)
	return nil
}

// turnAway tells a client that it is rejected, and closes the connection. The few bytes
// find room: nothing else was ever written.
func (l *link) turnAway() {
	l.reject()
	l.tell() // or it has gone
	l.close()
}

// abort closes a connection with a reset.
func (l *link) abort() {
	unix.SetsockoptLinger(l.fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	l.close()
}

func (l *link) close() {
	if l.fd >= 0 {
		unix.Close(l.fd)
		l.fd = -1
	}
}

// socket makes a socket for an address, with the options. An address of IPv6 takes both
// families, where the system is set to that.
func (m *manager) socket(sa unix.Sockaddr) (int, error) {
	family := unix.AF_INET
	if _, ok := sa.(*unix.SockaddrInet6); ok {
		family = unix.AF_INET6
	}
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := m.opts.apply(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}
