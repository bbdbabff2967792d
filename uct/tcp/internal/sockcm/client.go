//go:build linux

package sockcm

import (
	"fmt"

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

// Connect implements uct.ConnManager.
func (m *manager) Connect(p uct.ConnectParams) (uct.ConnEndpoint, error) {
	if err := m.CheckConnect(&p, p.Local); err != nil {
		return nil, err
	}
	sa, err := inet.Sockaddr(p.Remote)
	if err != nil {
		return nil, err
	}
	ep := &endpoint{m: m}
	ep.link = link{fd: -1, Route: connkit.Route{Remote: p.Remote}, machine: machine{state: connecting, limit: m.opts.private}}
	ep.InitClient(&m.Manager, ep, &p)
	if err := ep.begin(sa, p); err != nil {
		ep.link.close()
		return nil, err
	}
	ep.Register()
	return ep, nil
}

// begin creates the socket and starts to connect it. Progress reports errors of the network.
func (ep *endpoint) begin(sa unix.Sockaddr, p uct.ConnectParams) error {
	m := ep.m
	fd, err := m.socket(sa)
	if err == unix.EMFILE && m.evict(0, ledger.Descriptors) {
		fd, err = m.socket(sa)
	}
	if err != nil {
		return fmt.Errorf("tcp: connect to %v: %w", p.Remote, statuserr.New(sys.WithLimit(err), ucs.ErrIO))
	}
	ep.fd = fd
	if p.Local.IsValid() {
		local, err := inet.Sockaddr(p.Local)
		if err != nil {
			return err
		}
		if p.Local.Port() == 0 { // the kernel chooses the port in connect, which allows more connections
			unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
		}
		if err := unix.Bind(fd, local); err != nil {
			s := ucs.ErrIO
			if err == unix.EADDRNOTAVAIL {
				s = ucs.ErrInvalidAddr
			}
			return fmt.Errorf("tcp: connect to %v from %v: %w", p.Remote, p.Local, statuserr.New(err, s))
		}
	}
	switch err := unix.Connect(fd, sa); err {
	case nil, unix.EINPROGRESS, unix.EINTR:
		return ep.watch(event.Write)
	default:
		ep.FailLater(ep.broken("connect", err))
		return nil
	}
}

// reached is called when connect has succeeded or failed. After success it packs and sends the
// request.
func (ep *endpoint) reached() {
	errno, err := unix.GetsockoptInt(ep.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		err = unix.Errno(errno)
	}
	if err == nil {
		err = ep.locate()
	}
	if err == nil && ep.Local == ep.Remote {
		// A self-connect: no socket listens at the port, and the system chose it as the local
		// port.
		err = errSelf
	}
	if err != nil {
		ep.Fail(ep.broken("connect", err))
		return
	}
	private, err := ep.packed()
	switch {
	case ep.Phase != connkit.Opening: // Pack has closed the endpoint
	case err != nil:
		ep.Fail(err)
	default:
		ep.request(private)
		ep.write()
	}
}

// packed returns the private data of the request, made by the application's function Pack.
func (ep *endpoint) packed() ([]byte, error) {
	device, err := ep.m.host.Device(ep.fd, ep.Local.Addr())
	if err != nil {
		return nil, err
	}
	return ep.Pack(uct.PackArgs{Device: device, LocalAddr: ep.Local})
}
