//go:build linux

package cm

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"syscall"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/internal/netlink"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
)

// listener implements uct.Listener.
type listener struct {
	m      *manager
	id     *rdmacm.ID
	closed bool
	addr   netip.AddrPort
	params uct.ListenParams

	mu      sync.Mutex
	pending *ledger.Backlog[*request] // guarded by mu: requests that wait for the application
}

// Listen implements uct.ConnManager. A listener at the unspecified address also listens at the
// addresses of devices that are added later.
func (m *manager) Listen(at netip.AddrPort, p uct.ListenParams) (uct.Listener, error) {
	switch {
	case m.w == nil:
		return nil, errClosed
	case p.Backlog < 0 || p.OnRequest == nil || !at.IsValid():
		return nil, fmt.Errorf("rdmacm: listen on %v with a backlog of %d: address, OnRequest or backlog is invalid: %w", at, p.Backlog, ucs.ErrInvalidParam)
	}
	most := maxBacklog()
	if p.Backlog > 0 {
		most = min(p.Backlog, most)
	}
	l := &listener{m: m, params: p, pending: ledger.NewBacklog[*request](most)}
	err := l.open(at)
	if err != nil {
		if l.id != nil {
			l.id.Close()
		}
		return nil, &failure{fmt.Sprintf("listen on %v", at), err, bindStatus(err, at)}
	}
	m.listeners[l] = struct{}{}
	return l, nil
}

func (l *listener) open(at netip.AddrPort) (err error) {
	if l.id, err = l.m.ch.CreateID(rdmacm.PortSpaceTCP, 0); err != nil {
		return err
	}
	l.id.Context = l
	if l.m.opts.reuse || l.params.ReuseAddr {
		if err := l.id.SetReuseAddr(true); err != nil {
			return err
		}
	}
	if err := l.id.BindAddr(at); err != nil {
		return err
	}
	if err := l.id.Listen(l.pending.Most()); err != nil {
		return err
	}
	a, err := l.id.QueryAddr()
	if err != nil {
		return err
	}
	l.addr = a.Src
	if a.Src.Addr().Zone() != "" { // a zone by number, as in the addresses of requests
		if p, err := l.m.c.devices.at(&a); err == nil {
			l.addr = p.zoned(a.Src)
		}
	}
	return nil
}

// bindStatus returns the status of a failure to bind to an address
// (UCS_CLASS_INIT_FUNC(uct_rdmacm_listener_t)). The kernel uses EADDRNOTAVAIL both for an
// address that this machine does not have and for a port that is bound at all addresses.
func bindStatus(err error, at netip.AddrPort) ucs.Status {
	var errno syscall.Errno
	errors.As(err, &errno)
	switch errno {
	case syscall.EADDRINUSE:
		return ucs.ErrBusy
	case syscall.EADDRNOTAVAIL:
		if ip := at.Addr(); ip.IsUnspecified() {
			return ucs.ErrBusy
		} else if routes, err := netlink.ReadRoutes(); err == nil && routes.Local(ip.Unmap().WithZone("")) {
			return ucs.ErrBusy
		}
		return ucs.ErrInvalidAddr
	case syscall.ENODEV:
		return ucs.ErrNoDevice
	}
	return limitStatus(err)
}

// limitStatus returns the status of a failure that is not due to wrong arguments: ucs.ErrNoMemory
// or ucs.ErrIO.
func limitStatus(err error) ucs.Status {
	if errors.Is(err, ucs.ErrNoMemory) {
		return ucs.ErrNoMemory
	}
	return ucs.ErrIO
}

// maxBacklog returns the largest backlog that the kernel allows (ucs_rdmacm_max_backlog).
func maxBacklog() int {
	const usual = 1024
	text, _ := sys.ReadFile("/proc/sys/net/rdma_ucm/max_backlog")
	if n, err := strconv.Atoi(string(bytes.TrimSpace(text))); err == nil && n > 0 {
		return n
	}
	return usual
}

// Addr implements uct.Listener.
func (l *listener) Addr() netip.AddrPort { return l.addr }

// handle handles an event about the listener itself.
func (l *listener) handle(e *rdmacm.Event) {
	if e.Type == rdmacm.EventDeviceRemoval {
		l.m.w.Log().Diag("the device of a listener is gone, no more clients can connect there", zap.Stringer("listener", l.addr))
		l.id.Close() // the kernel waits until the ID is closed
		l.m.c.devices.removed(nil)
	}
}

// Close implements uct.Listener.
func (l *listener) Close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	delete(l.m.listeners, l)
	l.id.Close() // an error is ignored: a device that is gone has closed the ID already
	l.dropRequests()
	return nil
}
