//go:build linux

package cm

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/netlink"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/internal/connkit"
)

// usualBacklog is the largest backlog if the kernel does not report its limit
// (ucs_rdmacm_max_backlog).
const usualBacklog = 1024

// listener implements uct.Listener.
type listener struct {
	connkit.Listener
	m      *manager
	id     *rdmacm.ID
	closed bool
}

// Listen implements uct.ConnManager. A listener at the unspecified address also listens at the
// addresses of devices that are added later.
func (m *manager) Listen(at netip.AddrPort, p uct.ListenParams) (uct.Listener, error) {
	text, _ := sys.ReadFile("/proc/sys/net/rdma_ucm/max_backlog")
	l := &listener{m: m}
	if err := l.Init(&m.Manager, at, p, connkit.Backlog(text, usualBacklog)); err != nil {
		return nil, err
	}
	if err := l.open(at); err != nil {
		if l.id != nil {
			l.id.Close()
		}
		return nil, &failure{fmt.Sprintf("listen on %v", at), err, bindStatus(err, at)}
	}
	return l, nil
}

func (l *listener) open(at netip.AddrPort) (err error) {
	if l.id, err = l.m.ch.CreateID(rdmacm.PortSpaceTCP, 0); err != nil {
		return err
	}
	l.id.Context = l
	if l.Reuse() {
		if err := l.id.SetReuseAddr(true); err != nil {
			return err
		}
	}
	if err := l.id.BindAddr(at); err != nil {
		return err
	}
	if err := l.id.Listen(l.Backlog()); err != nil {
		return err
	}
	a, err := l.id.QueryAddr()
	if err != nil {
		return err
	}
	addr := a.Src
	if addr.Addr().Zone() != "" { // a zone by number, as in the addresses of requests
		if p, err := l.m.c.devices.at(&a); err == nil {
			addr = p.zoned(addr)
		}
	}
	l.Opened(l, addr)
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

// handle handles an event about the listener itself.
func (l *listener) handle(e *rdmacm.Event) {
	if e.Type == rdmacm.EventDeviceRemoval {
		l.m.Worker.Log().Diag("the device of a listener was removed; clients cannot connect to it any more", zap.Stringer("listener", l.Addr()))
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
	l.id.Close() // an error is ignored: a device that is gone has closed the ID already
	l.Drop(l)
	return nil
}
