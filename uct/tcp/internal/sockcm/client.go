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
	"github.com/ucx-go/ucx/uct/tcp/internal/inet"
)

// Connect implements uct.ConnManager.
func (m *manager) Connect(p uct.ConnectParams) (uct.ConnEndpoint, error) {
	switch {
	case m.w == nil:
		return nil, errClosed
	case !p.Remote.IsValid() || p.OnConnected == nil:
		return nil, fmt.Errorf("tcp: connect to %v: address or OnConnected is invalid: %w", p.Remote, ucs.ErrInvalidParam)
	case p.Local.IsValid() && p.Local.Addr().Unmap().Is4() != p.Remote.Addr().Unmap().Is4():
		return nil, fmt.Errorf("tcp: connect to %v from %v, an address of another family: %w", p.Remote, p.Local, ucs.ErrInvalidParam)
	}
	sa, err := inet.Sockaddr(p.Remote)
	if err != nil {
		return nil, err
	}
	ep := &endpoint{m: m, client: true, pack: p.Pack, ended: p.OnDisconnected}
	ep.link = link{fd: -1, remote: p.Remote, machine: machine{state: connecting, limit: m.opts.private}}
	ep.opened = func(ep *endpoint, err error, msg message) {
		a := uct.ConnectedArgs{Err: err}
		if err == nil {
			a.RemoteDeviceAddr, a.Private = m.host.DeviceAddr(ep.remote.Addr()), msg.private
		}
		p.OnConnected(ep, a)
	}
	if err := ep.begin(sa, p); err != nil {
		ep.link.close()
		return nil, err
	}
	m.endpoints[ep] = struct{}{}
	m.dialing++
	return ep, nil
}

// begin makes the socket and begins to connect it. What the network says to that is for
// Progress.
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
		if p.Local.Port() == 0 { // chosen when it connects, which allows more of them
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
		ep.failLater(ep.broken("connect", err))
		return nil
	}
}

// reached is told that connecting has ended, one way or the other, and makes the request.
func (ep *endpoint) reached() {
	errno, err := unix.GetsockoptInt(ep.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err == nil && errno != 0 {
		err = unix.Errno(errno)
	}
	if err == nil {
		err = ep.locate()
	}
	if err == nil && ep.local == ep.remote {
		// The system has chosen the port that nobody listens at.
		err = errSelf
	}
	if err != nil {
		ep.fail(ep.broken("connect", err))
		return
	}
	private, err := ep.packed()
	switch {
	case ep.phase != opening: // Pack has closed it
	case err != nil:
		ep.fail(err)
	default:
		ep.request(private)
		ep.write()
	}
}

// packed asks the application for the private data.
func (ep *endpoint) packed() ([]byte, error) {
	device, err := ep.m.host.Device(ep.fd, ep.local.Addr())
	if err != nil || ep.pack == nil {
		return nil, err
	}
	limit := ep.m.opts.private
	b := make([]byte, limit)
	n, err := ep.pack(uct.PackArgs{Device: device, LocalAddr: ep.local}, b)
	if err == nil && (n < 0 || n > limit) {
		err = tooLong(n, limit)
	}
	if err != nil {
		return nil, err
	}
	return b[:n], nil
}
