//go:build linux

package sockcm

import (
	"fmt"
	"net/netip"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/connkit"
	"github.com/ucx-go/ucx/uct/tcp/internal/inet"
)

// acceptBatch bounds the connections accepted in one round.
const acceptBatch = 64

// listener implements uct.Listener.
type listener struct {
	connkit.Listener
	m     *manager
	fd    int          // -1: closed
	timer *event.Timer // ends a pause of accepting
}

// Listen implements uct.ConnManager.
func (m *manager) Listen(at netip.AddrPort, p uct.ListenParams) (uct.Listener, error) {
	fail := func(err error, s ucs.Status) (uct.Listener, error) {
		return nil, fmt.Errorf("tcp: listen on %v: %w", at, statuserr.New(sys.WithLimit(err), s))
	}
	text, _ := sys.ReadFile("/proc/sys/net/core/somaxconn")
	l := &listener{m: m}
	if err := l.Init(&m.Manager, at, p, connkit.Backlog(text, unix.SOMAXCONN)); err != nil { // ucs_socket_max_conn
		return nil, err
	}
	sa, err := inet.Sockaddr(at)
	if err != nil {
		return nil, err
	}
	if l.fd, err = m.socket(sa); err != nil {
		return fail(err, ucs.ErrIO)
	}
	reuse := l.Reuse()
	if reuse {
		err = unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil {
		err = unix.Bind(l.fd, sa)
	}
	// Accepted connections inherit the option from the listener. Without it, they would block
	// the port for all later listeners, including those that set the option.
	if err == nil && !reuse {
		err = unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil {
		err = unix.Listen(l.fd, l.Backlog())
	}
	var name syscall.Sockaddr
	if err == nil {
		name, err = syscall.Getsockname(l.fd)
	}
	// The timer is created now, because no descriptor may be free when it is needed.
	if err == nil {
		if l.timer, err = m.Worker.Timers().After(time.Hour, l.resume); err == nil {
			l.timer.Stop()
			err = m.Worker.Events().Add(l.fd, event.Read, l)
		}
	}
	if err != nil {
		resting := err == unix.EADDRINUSE && !reuse && isResting(l.fd, sa)
		unix.Close(l.fd)
		switch {
		case resting:
			return fail(errResting, ucs.ErrBusy)
		case err == unix.EADDRINUSE:
			return fail(err, ucs.ErrBusy)
		case err == unix.EADDRNOTAVAIL || err == unix.EINVAL:
			return fail(err, ucs.ErrInvalidAddr)
		}
		return fail(err, ucs.ErrIO)
	}
	l.Opened(l, inet.AddrPort(name))
	return l, nil
}

// isResting reports whether only connections of a closed listener use an address that fd could
// not be bound to. If so, it binds fd to the address.
func isResting(fd int, sa unix.Sockaddr) bool {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) == nil && unix.Bind(fd, sa) == nil
}

// HandleEvent implements event.Handler. It accepts the waiting connections.
func (l *listener) HandleEvent(event.Events) {
	m := l.m
	m.ceiling = m.host.Ceiling()
	made := false // a visitor was evicted for the next accept
	for range acceptBatch {
		fd, sa, err := syscall.Accept4(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			made = false
			l.welcome(fd, inet.AddrPort(sa))
			if l.fd < 0 {
				return
			}
		case unix.EAGAIN:
			return
		case unix.EINTR, unix.ECONNABORTED:
		case unix.EMFILE:
			if made = !made && m.evict(m.host.Limits.Few, ledger.Descriptors); !made {
				l.pause(err)
				return
			}
		case unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			l.pause(err)
			return
		default:
			// An error of the connection, not of the listening socket (accept(2)).
			l.m.Worker.Log().Debug("accept failed", zap.Error(err))
		}
	}
}

// pause stops accepting for Limits.Pause. A connection that cannot be accepted keeps the socket
// readable, so the worker would otherwise retry in every round.
func (l *listener) pause(cause error) {
	l.m.Worker.Log().Diag("cannot accept connections, will retry", zap.Stringer("listener", l.Addr()), zap.Error(sys.WithLimit(cause)))
	l.m.Worker.Events().Modify(l.fd, 0)
	l.timer.Reset(l.m.host.Limits.Pause)
}

func (l *listener) resume() {
	if l.fd >= 0 {
		l.m.Worker.Events().Modify(l.fd, event.Read)
	}
}

// welcome starts to receive the request of an accepted connection. It closes a connection that is
// not allowed, or that exceeds a limit.
func (l *listener) welcome(fd int, from netip.AddrPort) {
	m := l.m
	v := &pendingConn{l: l, link: link{fd: fd, Route: connkit.Route{Remote: from}, machine: machine{limit: m.opts.private}}}
	if err := v.locate(); err != nil {
		v.abort() // the client is gone already
		return
	}
	v.Charge = connkit.ChargeTo(from.Addr(), 1)
	if !m.host.Allows(from.Addr()) {
		v.refuse(ledger.Policy, "source address not in UCX_TCP_ALLOW")
		return
	}
	if accept := l.Params.Accept; accept != nil {
		v.source, v.known = m.source(&v.link), true
		if !accept(v.source) || l.fd < 0 {
			v.refuse(ledger.Policy, "refused by the application's Accept function")
			return
		}
	}
	if !v.makeRoom() {
		return
	}
	// The request has usually arrived already.
	if v.read(); v.fd >= 0 && !v.whole {
		v.wait()
	}
}

// Close implements uct.Listener.
func (l *listener) Close() error {
	m := l.m
	if l.fd < 0 {
		return nil
	}
	l.timer.Stop()
	m.Worker.Events().Remove(l.fd)
	unix.Close(l.fd)
	l.fd = -1
	for _, v := range m.visitorsOf(l) {
		v.leave()
		v.drop()
	}
	l.Drop(l)
	return nil
}
