//go:build linux

package tcp

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
)

// Error is the failure of a connection. errors.Is matches its Status and its
// cause, a unix.Errno where the kernel gave one.
type Error struct {
	Op     string // what failed: "connect", "read", "write", …
	Device string
	Local  netip.AddrPort // listener of the local iface
	Peer   netip.AddrPort // listener of the peer's iface
	Status ucs.Status
	Err    error // nil: the peer closed the connection
}

// Error implements error.
func (e *Error) Error() string {
	cause := "closed by the peer"
	switch {
	case e.Err != nil:
		cause = statuserr.New(e.Err, e.Status).Error()
	case e.Status != ucs.ErrConnectionReset:
		cause += ": " + e.Status.Error()
	}
	return fmt.Sprintf("tcp: %s %v to %v on %s: %s", e.Op, e.Local, e.Peer, e.Device, cause)
}

// Unwrap makes the error match its status and its cause.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Status}
	}
	return []error{e.Status, e.Err}
}

// Causes that do not come from the kernel.
var (
	errProtocol  = errors.New("the peer violated the protocol")
	errNoAnswer  = errors.New("the peer's machine does not answer")
	errForbidden = errors.New("the peer wrote to memory that is not exposed")
	errLate      = errors.New("the peer has not ended the TLS handshake in time") // status ucs.ErrTimedOut
)

// newError returns the error of ep for a failure of its connection.
func (ep *endpoint) newError(operation string, cause error) *Error {
	status := ucs.ErrConnectionReset
	if ep.conn == nil || ep.conn.state != stateConnected {
		status = connectStatus(cause)
	}
	return &Error{
		Op:     operation,
		Device: ep.iface.attr.Resource.Device,
		Local:  ep.iface.addr.addrPort(),
		Peer:   ep.peer.addrPort(),
		Status: status,
		Err:    withLimit(operation, cause),
	}
}

// errOtherFamily returns the error for a peer of another address family than the iface's.
func (i *iface) errOtherFamily(peer sockaddr) error {
	return fmt.Errorf("tcp: %v cannot connect to %v, of another address family: %w", i.addr, peer, ucs.ErrUnreachable)
}

// withLimit is sys.WithLimit that also explains a lack of local ports.
func withLimit(operation string, cause error) error {
	if operation != "connect" || cause != unix.EADDRNOTAVAIL {
		return sys.WithLimit(cause)
	}
	ports, _ := sys.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	return fmt.Errorf("%w: all ports of %s have connections to that listener, give more (sysctl net.ipv4.ip_local_port_range)",
		cause, strings.Join(strings.Fields(string(ports)), " to "))
}

// connectStatus returns the status of an endpoint whose connection cannot be made
// (ucs_socket_errno_to_status).
func connectStatus(cause error) ucs.Status {
	if errors.Is(cause, errLate) {
		return ucs.ErrTimedOut
	}
	var refused *tlsError
	if errors.As(cause, &refused) {
		return ucs.ErrRejected
	}
	var errno unix.Errno
	if errors.As(cause, &errno) {
		switch errno {
		case unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.EADDRNOTAVAIL, unix.EACCES, unix.EPERM:
			return ucs.ErrIO
		case unix.ENETUNREACH, unix.EHOSTUNREACH, unix.ENETDOWN, unix.EHOSTDOWN, unix.ETIMEDOUT:
			return ucs.ErrUnreachable
		}
	}
	return ucs.ErrConnectionReset
}
