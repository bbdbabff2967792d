//go:build linux

package tcp

import (
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/tcp/internal/inet"
)

// A device has one address in the addresses of workers, of the family that UCX_TCP_AF_PRIO
// prefers (uct_tcp_iface), but it may have more: of the other family, or several of IPv6.
// A connection manager reaches it at any of them, and the peer, which knows the device by the
// address that the manager has connected to, connects its endpoints with ours there. Such an
// endpoint is of an interface of its own for that address, with a listener there. That one is
// opened when it is needed first, is in no list, and ends with the interface of the device.

// at returns the interface for endpoints that peers reach at an address of the device.
// Between addresses of IPv4 there is none but the device's, as in C UCX.
func (i *iface) at(local netip.Addr) (*iface, error) {
	local = local.Unmap().WithZone("")
	if !local.IsValid() || local == i.addr.addrPort().Addr() || local.Is4() && !i.addr.v6 {
		return i, nil
	}
	if o := i.others[local]; o != nil {
		return o, nil
	}
	o := i.twin(local)
	if err := o.listen(i.attr.Resource.Device); err != nil {
		return nil, fmt.Errorf("%w: at another address of %s, which a connection has come by", err, i.attr.Resource.Device)
	}
	o.publish()
	o.attr = i.attr
	o.attr.DeviceAddrLen, o.attr.IfaceAddrLen = len(o.devAddr), len(o.ifaceAddr)
	if i.others == nil {
		i.others = make(map[netip.Addr]*iface)
	}
	i.others[local] = o
	return o, nil
}

// twin is an interface as i, at another address.
func (i *iface) twin(local netip.Addr) *iface {
	return &iface{
		md: i.md, svc: i.svc, opts: i.opts, bounds: i.bounds,
		dev: localDeviceAddr(local), addr: makeSockaddr(local, 0), index: i.index,
		handlers: i.handlers, reporter: i.reporter, accept: i.accept,
		match: newMatchTable(), keys: make(map[uint64]*endpoint), endpoints: make(map[*endpoint]struct{}),
		maxFrame: i.maxFrame, maxRxFrame: i.maxRxFrame, maxLarge: i.maxLarge, silence: i.silence,
		txPool: i.txPool, rxPool: i.rxPool,
		first: i,
	}
}

// closeOthers closes the interfaces for the device's other addresses.
func (i *iface) closeOthers() {
	for _, o := range i.others {
		o.Close()
	}
	i.others = nil
}

// errOtherFamily is the error of addresses that an interface does not connect to.
func (i *iface) errOtherFamily(peer sockaddr) error {
	return fmt.Errorf("tcp: %v cannot connect to %v, of another address family: %w", i.addr, peer, ucs.ErrUnreachable)
}

var _ uct.Multihomed = (*endpoint)(nil)

// InterfaceAddr implements uct.Multihomed.
func (ep *endpoint) InterfaceAddr() (p uct.ReachableParams, other bool) {
	i := ep.iface
	return uct.ReachableParams{DeviceAddr: i.devAddr, IfaceAddr: i.ifaceAddr}, i.first != nil
}

// zoned is an address on the interface's link: one of IPv6 that means something there
// alone has the device's number as its zone.
func (i *iface) zoned(ip netip.Addr) netip.Addr {
	if ip.Is6() && ip.IsLinkLocalUnicast() {
		return inet.Zoned(ip, uint32(i.index))
	}
	return ip
}
