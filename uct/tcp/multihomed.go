//go:build linux

package tcp

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Worker addresses contain one address of a device, of the family that UCX_TCP_AF_PRIO prefers
// (uct_tcp_iface); multihomed.go has the exception. The device may have more addresses, of either
// family. A connection manager can connect to any of them. The peer then knows the device by the
// address to which its connection manager has connected, and connects its endpoints with those of
// this side there. Such an endpoint of this side belongs to a separate interface for that address,
// which has its own listener. The separate interface is opened when it is first needed, is not
// listed as a resource, and is closed with the interface of the device.

// openAt returns the interface for endpoints that peers reach at an address of the device, and
// opens it if necessary. All of 127.0.0.0/8 is one address, that of lo (peerDeviceAddr).
func (i *iface) openAt(local netip.Addr) (*iface, error) {
	local = local.Unmap().WithZone("")
	if !local.IsValid() || local == i.addr.addrPort().Addr() || local.Is4() && local.IsLoopback() && i.dev.loopback && !i.addr.v6 {
		return i, nil
	}
	if o := i.others[local]; o != nil {
		return o, nil
	}
	if err := i.makeOtherRoom(); err != nil {
		return nil, err
	}
	o := i.clone(local)
	if err := o.listen(i.attr.Resource.Device); err != nil {
		return nil, fmt.Errorf("%w: listening at the address of %s at which a connection has arrived", err, i.attr.Resource.Device)
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

// maxOthers is the largest number of other addresses of a device that have an interface. There is
// a limit because a peer chooses the address to which it connects, and a device may have whole
// networks as its addresses (the table local of ip-route(8)).
const maxOthers = 64

// makeOtherRoom closes the unused interfaces of other addresses if there are maxOthers. It returns
// ErrNoResource if all of them are in use.
func (i *iface) makeOtherRoom() error {
	if len(i.others) < maxOthers {
		return nil
	}
	for at, o := range i.others {
		if at == i.second || len(o.endpoints) > 0 || o.conns != nil {
			continue
		}
		var unused uct.Iface = o
		if err := unused.Close(); err != nil {
			return err
		}
		delete(i.others, at)
	}
	if len(i.others) < maxOthers {
		return nil
	}
	return fmt.Errorf("tcp: endpoints use %d other addresses of %s, which is the limit: %w", maxOthers, i.attr.Resource.Device, ucs.ErrNoResource)
}

// clone returns an interface like i at another address, without listener.
func (i *iface) clone(local netip.Addr) *iface {
	return &iface{
		md: i.md, svc: i.svc, opts: i.opts, bounds: i.bounds,
		dev: localDeviceAddr(local), addr: makeSockaddr(local, 0), index: i.index,
		handlers: i.handlers, reporter: i.reporter, accept: i.accept,
		match: newMatchTable(), keys: make(map[uint64]*endpoint), endpoints: make(map[*endpoint]struct{}),
		maxFrame: i.maxFrame, maxRxFrame: i.maxRxFrame, maxLarge: i.maxLarge, silence: i.silence,
		txPool: i.txPool, rxPool: i.rxPool,
		mainIface: i,
	}
}

// publish sets the device address and the interface address for peers.
func (i *iface) publish() {
	i.devAddr = i.dev.pack()
	i.ifaceAddr = binary.BigEndian.AppendUint16(nil, i.addr.port)
}

// InterfaceAddr implements uct.NetworkEndpoint.
func (ep *endpoint) InterfaceAddr() (p uct.ReachableParams, other bool) {
	i := ep.iface
	return uct.ReachableParams{DeviceAddr: i.devAddr, IfaceAddr: i.ifaceAddr}, i.mainIface != nil
}

// Devices with addresses of both families. In C UCX a device has one address family, and
// workers reach each other only if their families are the same. In this library a device that
// has addresses of both families in UCX_TCP_AF_PRIO also connects to peers that the first
// family does not reach. Those connections are made from a separate iface at the second
// address (multihomed.go), and their requests name that iface's listener.
//
// Worker addresses contain the second address only with UCX_TCP_AF_DUAL. A C UCX peer that has
// the first family skips the second address, but regards it as another device. So a C UCX peer
// that has a device of the second family alone beside other devices opens one more lane to the
// second address, which it would not do toward another C UCX peer. The second address takes 41
// bytes of each worker address.

// SecondReachable implements uct.NetworkIface.
func (i *iface) SecondReachable(p uct.ReachableParams) error {
	if !i.second.IsValid() {
		return errNoSecond
	}
	d := localDeviceAddr(i.second)
	return i.reachableFrom(&d, p)
}

// errNoSecond is preallocated, because lane selection calls SecondReachable often.
var errNoSecond = &secondError{}

type secondError struct{}

func (*secondError) Error() string { return "tcp: the device has no address of a second family" }
func (*secondError) Unwrap() error { return ucs.ErrUnreachable }

// SecondAddress implements uct.NetworkIface.
func (i *iface) SecondAddress() (p uct.ReachableParams, ok bool, err error) {
	if !i.md.opts.dual || !i.second.IsValid() {
		return p, false, nil
	}
	o, err := i.at(i.second)
	if err != nil {
		return p, false, err
	}
	return uct.ReachableParams{DeviceAddr: o.devAddr, IfaceAddr: o.ifaceAddr}, true, nil
}
