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
// (uct_tcp_iface); dualstack.go has the exception. The device may have more addresses, of either
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
	o := i.twin(local)
	if err := o.listen(i.attr.Resource.Device); err != nil {
		return nil, fmt.Errorf("%w: at another address of %s, at which a connection has arrived", err, i.attr.Resource.Device)
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

// twin returns an interface like i at another address, without listener.
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

// publish sets the device address and the interface address for peers.
func (i *iface) publish() {
	i.devAddr = i.dev.pack()
	i.ifaceAddr = binary.BigEndian.AppendUint16(nil, i.addr.port)
}

var _ uct.Multihomed = (*endpoint)(nil)

// InterfaceAddr implements uct.Multihomed.
func (ep *endpoint) InterfaceAddr() (p uct.ReachableParams, other bool) {
	i := ep.iface
	return uct.ReachableParams{DeviceAddr: i.devAddr, IfaceAddr: i.ifaceAddr}, i.first != nil
}
