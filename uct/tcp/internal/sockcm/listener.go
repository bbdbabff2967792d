//go:build linux

package sockcm

import (
	"bytes"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
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
	"github.com/ucx-go/ucx/uct/tcp/internal/inet"
)

// acceptBatch bounds the connections accepted in one round.
const acceptBatch = 64

// listener implements uct.Listener.
type listener struct {
	m      *manager
	fd     int // -1: closed
	addr   netip.AddrPort
	params uct.ListenParams
	timer  *event.Timer // ends a pause

	mu      sync.Mutex
	pending *ledger.Backlog[*request] // guarded by mu; requests that nobody has consumed
}

// Listen implements uct.ConnManager.
func (m *manager) Listen(at netip.AddrPort, p uct.ListenParams) (uct.Listener, error) {
	fail := func(err error, s ucs.Status) (uct.Listener, error) {
		return nil, fmt.Errorf("tcp: listen on %v: %w", at, statuserr.New(sys.WithLimit(err), s))
	}
	switch {
	case m.w == nil:
		return nil, errClosed
	case p.Backlog < 0 || p.OnRequest == nil || !at.IsValid():
		return nil, fmt.Errorf("tcp: listen on %v with a backlog of %d: address, OnRequest or backlog is invalid: %w", at, p.Backlog, ucs.ErrInvalidParam)
	}
	sa, err := inet.Sockaddr(at)
	if err != nil {
		return nil, err
	}
	most := somaxconn()
	if p.Backlog > 0 {
		most = min(p.Backlog, most)
	}
	l := &listener{m: m, params: p, pending: ledger.NewBacklog[*request](most)}
	if l.fd, err = m.socket(sa); err != nil {
		return fail(err, ucs.ErrIO)
	}
	reuse := m.opts.reuse || p.ReuseAddr
	if reuse {
		err = unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil {
		err = unix.Bind(l.fd, sa)
	}
	// Its connections have the option from it, without which they would keep the port from
	// all later listeners, from those that set it, too.
	if err == nil && !reuse {
		err = unix.SetsockoptInt(l.fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil {
		err = unix.Listen(l.fd, most)
	}
	var name syscall.Sockaddr
	if err == nil {
		name, err = syscall.Getsockname(l.fd)
	}
	// The timer is made now: when it is needed there are no descriptors.
	if err == nil {
		if l.timer, err = m.w.Timers().After(time.Hour, l.resume); err == nil {
			l.timer.Stop()
			err = m.w.Events().Add(l.fd, event.Read, l)
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
	l.addr = inet.AddrPort(name)
	m.listeners[l] = struct{}{}
	return l, nil
}

// isResting reports whether an address that a socket could not be bound to is only held by
// connections of a listener that is closed. It binds the socket if so.
func isResting(fd int, sa unix.Sockaddr) bool {
	return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) == nil && unix.Bind(fd, sa) == nil
}

// somaxconn is the largest backlog (ucs_socket_max_conn).
func somaxconn() int {
	text, _ := sys.ReadFile("/proc/sys/net/core/somaxconn")
	if n, err := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil && n > 0 {
		return n
	}
	return unix.SOMAXCONN
}

// Addr implements uct.Listener.
func (l *listener) Addr() netip.AddrPort { return l.addr }

// HandleEvent accepts what waits.
func (l *listener) HandleEvent(event.Events) {
	m := l.m
	m.ceiling = m.host.Ceiling()
	made := false // room, by sending somebody away
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
			// Errors of the connection, not of the socket (accept(2)).
			l.m.w.Log().Debug("accept failed", zap.Error(err))
		}
	}
}

// pause stops accepting for a while: the connection that cannot be accepted
// keeps the socket ready, and would keep us busy.
func (l *listener) pause(cause error) {
	l.m.w.Log().Diag("cannot accept connections for now", zap.Stringer("listener", l.addr), zap.Error(sys.WithLimit(cause)))
	l.m.w.Events().Modify(l.fd, 0)
	l.timer.Reset(l.m.host.Limits.Pause)
}

func (l *listener) resume() {
	if l.fd >= 0 {
		l.m.w.Events().Modify(l.fd, event.Read)
	}
}

// welcome starts on a connection, unless it is unwanted or there is no room.
func (l *listener) welcome(fd int, from netip.AddrPort) {
	m := l.m
	v := &visitor{l: l, link: link{fd: fd, remote: from, machine: machine{limit: m.opts.private}}}
	if err := v.locate(); err != nil {
		v.abort() // it has gone already
		return
	}
	v.account = ledger.Open(ledger.SourceOf(from.Addr(), -1))
	v.account.Add(ledger.Conns, 1)
	v.account.Add(ledger.Files, 1)
	if !m.host.Allows(from.Addr()) {
		v.refuse(ledger.Policy, "not allowed here")
		return
	}
	if accept := l.params.Accept; accept != nil {
		v.source, v.known = m.source(&v.link), true
		if !accept(v.source) || l.fd < 0 {
			v.refuse(ledger.Policy, "not allowed here")
			return
		}
	}
	if !v.makeRoom() {
		return
	}
	// The request is usually there already.
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
	m.w.Events().Remove(l.fd)
	unix.Close(l.fd)
	l.fd = -1
	delete(m.listeners, l)
	for _, v := range m.visitorsOf(l) {
		v.leave()
		v.drop()
	}
	l.dropRequests()
	return nil
}
