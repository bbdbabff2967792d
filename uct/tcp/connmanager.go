//go:build linux

package tcp

import (
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/tcp/internal/inet"
	"github.com/ucx-go/ucx/uct/tcp/internal/sockcm"
)

var (
	_ uct.ConnManagerComponent = component{}
	_ uct.ConnManagerComponent = (*secured)(nil)
)

// OpenConnManager implements uct.ConnManagerComponent.
func (component) OpenConnManager(w *uct.Worker, cfg *config.Set) (uct.ConnManager, error) {
	opts, err := loadOptions(cfg)
	if err != nil {
		return nil, err
	}
	b := limits.fitting()
	p := &places{w: w, own: ownAddrs{read: readOwnAddrs}}
	return sockcm.Open(w, sockcm.Host{
		Component:  componentName,
		Device:     p.device,
		Here:       p.here,
		DeviceAddr: peerDeviceAddr,
		Allows:     opts.allows,
		Ceiling:    fileCeiling,
		Limits: sockcm.Limits{
			Visitors: b.halfOpen,
			Few:      b.few,
			OfSource: b.guestsOfSource,
			All:      b.guests,
			Pause:    b.acceptPause,
		},
	}, cfg)
}

// OpenConnManager implements uct.ConnManagerComponent. The connections of a connection manager
// are neither encrypted nor authenticated, so an application that allows only TLS gets an
// error.
func (*secured) OpenConnManager(*uct.Worker, *config.Set) (uct.ConnManager, error) {
	return nil, fmt.Errorf("tls: connections by socket address do not support TLS, exchange worker addresses instead: %w", ucs.ErrUnsupported)
}

// places maps addresses of this machine to devices.
type places struct {
	w   *uct.Worker
	own ownAddrs
}

// here reports whether ip is an address of this machine, in this network namespace.
func (p *places) here(ip netip.Addr) bool {
	_, own, _ := p.own.find(ip, p.w.Now())
	return own || ip.IsLoopback()
}

// device returns the name of the device that has ip, the address of a socket
// (ucs_sockaddr_get_ifname). The loopback device has all of 127.0.0.0/8.
func (p *places) device(fd int, ip netip.Addr) (string, error) {
	n, own, sure := p.own.find(ip, p.w.Now())
	if !own && ip.Is4() && ip.IsLoopback() {
		n, own, sure = p.own.find(netip.AddrFrom4([4]byte{127, 0, 0, 1}), p.w.Now())
	}
	if !own && sure {
		p.own.until = 0 // the address may be new: read the addresses again
		n, own, sure = p.own.find(ip, p.w.Now())
	}
	switch {
	case own:
		return inet.DeviceName(fd, n)
	case !sure:
		return "", fmt.Errorf("tcp: the kernel could not say which device has the address %v: %w", ip, ucs.ErrIO)
	}
	return "", fmt.Errorf("tcp: no device has the address %v: %w", ip, ucs.ErrNoDevice)
}

// peerDeviceAddr returns the device address of the peer that a connection comes from, in the
// form with the IP address, for loopback as well (uct_tcp_sockcm_ep_get_remote_device_addr). A
// client or server at any address of 127.0.0.0/8 has its endpoints at 127.0.0.1, because the
// loopback form in worker addresses contains no IP address.
func peerDeviceAddr(ip netip.Addr) []byte {
	if ip = ip.Unmap(); ip.Is4() && ip.IsLoopback() {
		ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	d := deviceAddr{v6: ip.Is6(), ip: ip.WithZone("")}
	return d.pack()
}
