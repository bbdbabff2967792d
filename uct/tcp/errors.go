//go:build linux

package tcp

import (
	"errors"
	"fmt"
	"net/netip"
	"runtime"
	"strings"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
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
	Err    error // cause; nil: the peer closed the connection
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

// Causes of connection failures that do not come from the kernel.
var (
	errProtocol  = errors.New("the peer violated the protocol")
	errNoAnswer  = errors.New("the peer's machine does not answer")
	errForbidden = errors.New("the peer wrote to memory that is not exposed")
	errLate      = errors.New("the peer has not finished the TLS handshake in time") // status ucs.ErrTimedOut
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

// withLimit is sys.WithLimit, but also explains a lack of local ports.
func withLimit(operation string, cause error) error {
	if operation != "connect" || cause != unix.EADDRNOTAVAIL {
		return sys.WithLimit(cause)
	}
	ports, _ := sys.ReadFile("/proc/sys/net/ipv4/ip_local_port_range")
	return fmt.Errorf("%w: all ports of %s have connections to that listener, raise the number (sysctl net.ipv4.ip_local_port_range)",
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

// Failure of connections and endpoints. Code that finds a connection broken calls lost, and
// code that finds a violation by the peer calls refuse. Both end the connection; its endpoint
// fails, or, after lost, connects again if it was not connected yet.

// lost is called when the connection broke. operation is the operation that failed; cause is its
// error, nil at the end of the stream.
func (c *conn) lost(operation string, cause error) {
	ep, state := c.ep, c.state
	switch {
	case ep == nil:
		// No endpoint sends on the connection. The peer may connect again.
		c.close()
	case state == stateConnecting || state == stateWaitingAck:
		unanswered := c.closedUnanswered(operation, cause)
		c.close()
		ep.conn = nil
		if unanswered && ep.renumber() {
			return
		}
		ep.retry(operation, cause)
	default:
		ep.fail(operation, cause)
	}
}

// refuse drops a connection whose peer did something that a peer must not do. If the connection
// has an endpoint, the endpoint fails with cause.
func (c *conn) refuse(cause error) {
	if c.ep == nil {
		c.close()
		return
	}
	c.ep.fail("read", cause)
}

// DropSource implements uct.SourceOwner.
func (c *conn) DropSource(err error) {
	if c.state != stateClosed {
		c.refuse(fmt.Errorf("dropped by the receiver: %w", err))
	}
}

// SourceShared implements uct.SourceOwner.
func (c *conn) SourceShared() bool { return c.ep != nil }

// SourceError implements uct.SourceOwner. A connection does not keep the error that ended it.
func (c *conn) SourceError() error { return nil }

// CheckSource implements uct.SourceOwner. The keepalive of the socket does that.
func (c *conn) CheckSource() {}

// EndSource implements uct.SourceOwner. The peer receives the end of the stream after all that
// was sent before. It does nothing to a connection that has an endpoint, is not connected or is
// blocked.
func (c *conn) EndSource() {
	if c.ep == nil && c.state == stateConnected && !c.blocked {
		unix.Shutdown(int(c.fd), unix.SHUT_WR)
	}
}

// fail ends an endpoint. The next Progress, or the one that is running, completes the
// endpoint's operations with the error and calls OnError.
func (ep *endpoint) fail(operation string, cause error) {
	if ep.err != nil { // failed or closed already: nothing to report
		ep.disconnect()
		return
	}
	ep.err = ep.newError(operation, cause)
	ep.disconnect()
	ep.iface.svc.failures.Add(&ep.iface.reporter, ep, ep.err)
}

// disconnect closes the connections of an endpoint and takes it out of the match table.
func (ep *endpoint) disconnect() {
	if ep.timer != nil {
		ep.timer.Stop()
	}
	if ep.stale != nil {
		ep.stale.close()
		ep.stale = nil
	}
	if ep.conn != nil {
		ep.conn.close()
	}
	ep.iface.unmatchEndpoint(ep)
}

// Over implements kit.Failing.
func (ep *endpoint) Over(err error) (userData any, report bool) {
	if ep.closed {
		return nil, false
	}
	ep.endOps(err)
	return ep.user, !ep.closed
}

// endOps completes all operations of the endpoint with err.
func (ep *endpoint) endOps(err error) {
	if ep.conn != nil {
		ep.conn.endOps(err)
	}
	ep.iface.svc.ops.finishAll(&ep.checks, err)
}

// HandshakePanic is the error of a connection whose handshake failed because a function of
// the application's tls.Config panicked. It is logged at most once a minute, because it
// happens on a goroutine of the library where the application cannot recover. An endpoint
// of this side fails with it as well.
type HandshakePanic struct {
	Value any    // the value the function panicked with
	Stack []byte // the stack of the panic, as runtime.Stack formats it
}

// Error returns the value and the place of the panic.
func (p *HandshakePanic) Error() string {
	return fmt.Sprintf("tls: panic in a function of the configuration: %v\n\n%s", p.Value, p.Stack)
}

// Unwrap returns the value if it is an error.
func (p *HandshakePanic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// stack returns the stack of the calling goroutine, at most 64 KiB of text.
func stack() []byte {
	b := make([]byte, 64<<10)
	return b[:runtime.Stack(b, false)]
}

// logPanic logs a panic, at most once a minute, because peers may be able to cause panics.
func (c *conn) logPanic(p *HandshakePanic) {
	var who *ledger.Account
	if c.guestEntry.guest != nil {
		who = c.guestEntry.guest.account
	}
	if !who.Refuse(ledger.Panic) {
		return
	}
	c.iface.svc.w.Log().Error("panic in a function of a TLS configuration", zap.Stringer("listener", c.iface.addr), zap.Stringer("peer", c.from.addr),
		zap.Any("value", p.Value), zap.ByteString("stack", p.Stack))
}
