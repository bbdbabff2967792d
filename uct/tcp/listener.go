//go:build linux

package tcp

import (
	"fmt"
	"math/rand/v2"
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
	"github.com/ucx-go/ucx/uct/tcp/internal/inet"
)

// acceptBatch is the largest number of connections accepted for one event.
const acceptBatch = 64

// listener accepts the connections of an iface.
type listener struct {
	iface *iface
	fd    int
	open  bool
	timer *event.Timer // ends a pause of accepting

	accept func(fd, flags int) (int, syscall.Sockaddr, error)
}

// listen opens the iface's listening socket on a device, which has to be running, and sets the port
// of the iface's address.
func (i *iface) listen(device string) error {
	fd, port, err := i.bindListener()
	if err == nil {
		if err = checkRunning(fd, device); err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return i.listenError(err)
	}
	i.addr.port = port
	l := &i.listener
	*l = listener{iface: i, fd: fd, open: true, accept: syscall.Accept4}
	// The timer is made now, because no descriptors are free when it is needed.
	if l.timer, err = i.svc.w.Timers().After(time.Hour, l.resume); err == nil {
		l.timer.Stop()
		err = i.svc.w.Events().Add(fd, event.Read, l)
	}
	if err != nil {
		unix.Close(fd)
		return i.listenError(err)
	}
	return nil
}

// listenError returns the error of an interface that cannot listen.
func (i *iface) listenError(err error) error {
	status := ucs.ErrIO
	if err == unix.EADDRINUSE {
		status = ucs.ErrBusy
		if p := i.opts.ports; p.First != 0 || p.Last != 0 {
			err = fmt.Errorf("no port of UCX_TCP_PORT_RANGE=%v is free: %w", p, err)
		} else {
			err = fmt.Errorf("no port of net.ipv4.ip_local_port_range is free: %w", err)
		}
	}
	return fmt.Errorf("tcp: listen on %v: %w", i.dev.ip, statuserr.New(sys.WithLimit(err), status))
}

// bindListener makes a listening socket on a free port of the configured range, starting the search
// at a random port.
func (i *iface) bindListener() (fd int, port uint16, err error) {
	ports := i.opts.ports
	first, count := ports.First, ports.Last-ports.First+1
	start := rand.Uint32N(count)
	for k := range count {
		port := uint16(first + (start+k)%count)
		fd, err = i.bindTo(port)
		if err != unix.EADDRINUSE {
			break
		}
	}
	if err != nil {
		return -1, 0, err
	}
	sa, err := syscall.Getsockname(fd)
	if err != nil {
		unix.Close(fd)
		return -1, 0, err
	}
	return fd, inet.AddrPort(sa).Port(), nil
}

func (i *iface) bindTo(port uint16) (int, error) {
	fd, err := i.socket()
	if err != nil {
		return -1, err
	}
	local := i.addr.withPort(port)
	if err = unix.Bind(fd, i.unix(&local)); err == nil {
		err = unix.Listen(fd, unix.SOMAXCONN)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// HandleEvent accepts waiting connections, at most acceptBatch.
func (l *listener) HandleEvent(event.Events) {
	s, few := l.iface.svc, l.iface.bounds.few
	s.ceiling = fileCeiling()
	made := false // a connection was evicted for the next accept
	for range acceptBatch {
		fd, sa, err := l.accept(l.fd, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		switch err {
		case nil:
			l.iface.accepted(fd, inet.AddrPort(sa))
			made = false
			if !l.open {
				return
			}
		case unix.EAGAIN:
			return
		case unix.EINTR, unix.ECONNABORTED:
		case unix.EMFILE:
			if made = !made && (s.evictHalfOpen(few, few) || s.evict(nil, ledger.Descriptors, errFiles)); !made {
				s.askSiblings()
				l.pause(err)
				return
			}
		case unix.ENFILE, unix.ENOBUFS, unix.ENOMEM:
			// These are limits of the machine, which other processes use up: an eviction here
			// makes no room.
			l.pause(err)
			return
		default:
			// Errors of the connection, not of the socket (accept(2)).
			l.iface.svc.w.Log().Debug("accept failed", zap.Error(err))
		}
	}
}

// pause stops accepting for acceptPause. The connection that cannot be accepted keeps the socket
// ready, and would keep the worker busy.
func (l *listener) pause(cause error) {
	l.iface.svc.w.Log().Diag("cannot accept connections, will retry", zap.Stringer("listener", l.iface.addr), zap.Error(sys.WithLimit(cause)))
	l.iface.svc.w.Events().Modify(l.fd, 0)
	l.timer.Reset(l.iface.bounds.acceptPause)
}

func (l *listener) resume() {
	if l.open {
		l.iface.svc.w.Events().Modify(l.fd, event.Read)
	}
}

// close stops listening.
func (l *listener) close() {
	if !l.open {
		return
	}
	l.open = false
	l.timer.Stop()
	l.iface.svc.w.Events().Remove(l.fd)
	unix.Close(l.fd)
}

// accepted handles a new connection from an unknown peer.
func (i *iface) accepted(fd int, from netip.AddrPort) {
	if !i.opts.allows(from.Addr()) {
		i.unwanted(nil, from)
		resetOnClose(fd)
		unix.Close(fd)
		return
	}
	// The connection inherits the options of the listening socket.
	c := i.newConn(fd, stateMagic)
	c.from.addr = from
	i.svc.enroll(c)
	if i.accept != nil && !i.accept(c.SourceInfo()) {
		i.unwanted(c.guestEntry.guest.account, from)
		c.close()
		return
	}
	if !i.svc.makeRoom(c) {
		return
	}
	if err := c.watch(event.Read); err != nil {
		c.close()
		return
	}
	if i.md.secure != nil {
		i.md.secure(c)
		i.svc.waitForRequest(c)
		return
	}
	// The request is usually there already.
	c.read()
	if c.state == stateMagic || c.state == stateAccepting {
		i.svc.waitForRequest(c)
	}
}

// InUse implements uct.ScopedMemory: it reports whether only a part of a peer's put has arrived in
// the memory.
func (m *domain) InUse(h uct.MemHandle) bool {
	r, ok := h.(*region)
	return ok && r.arriving.Load() > 0
}

// hold counts the put in region.arriving if a part of its payload has not arrived. drop ends that,
// because the payload is complete, continues in another region or will not arrive. Most puts arrive
// together with their announcement and are not counted.
func (p *putRecv) hold() {
	if p.left > 0 && !p.held {
		p.region.arriving.Add(1)
		p.held = true
	}
}

func (p *putRecv) drop() {
	if p.held {
		p.region.arriving.Add(-1)
		p.held = false
	}
}
