//go:build linux

package sockcm

import (
	"errors"
	"fmt"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/internal/connkit"
	"github.com/ucx-go/ucx/uct/tcp/internal/inet"
)

// link is a socket with its protocol state.
type link struct {
	machine
	connkit.Route
	fd int // -1: closed
}

// readMessage reads once from the socket, into buf, and returns a message if these bytes
// complete it.
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

// writeQueued writes the queued bytes, as many as the kernel accepts.
func (l *link) writeQueued() error {
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

// broken returns the error of a connection that ends because of cause.
func (l *link) broken(operation string, cause error) error {
	var s ucs.Status
	switch status := l.statusOf(cause); {
	case errors.As(cause, &s):
	case cause == errEnd && status == ucs.ErrConnectionReset:
		cause = statuserr.Matching(cause, status)
	default:
		cause = statuserr.New(sys.WithLimit(cause), status)
	}
	return fmt.Errorf("tcp: connection manager: %s %v: %w", operation, &l.Route, cause)
}

// statusOf returns the status of a connection that ends because of cause
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

// locate stores the local and the remote address of the socket.
func (l *link) locate() error {
	local, err := syscall.Getsockname(l.fd)
	if err != nil {
		return err
	}
	remote, err := syscall.Getpeername(l.fd)
	if err != nil {
		return err
	}
	l.Local, l.Remote = inet.AddrPort(local), inet.AddrPort(remote)
	return nil
}

// Reject implements connkit.Client: it sends a rejection to the client and closes the connection.
// The message fits into the send buffer, because nothing else was written on the connection.
func (l *link) Reject() {
	l.reject()
	l.writeQueued() // an error means that the client is gone
	l.close()
}

// abort closes the connection with a reset.
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

// socket creates a socket for an address and sets the options. A socket with an IPv6 address
// accepts both families if the system is configured so.
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
