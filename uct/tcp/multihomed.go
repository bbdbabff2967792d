//go:build linux

package tcp

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// A device has one address in the addresses of workers, of the family that UCX_TCP_AF_PRIO
// prefers (uct_tcp_iface), but for dualstack.go. It may have more, of either family. A
// connection manager reaches it at any of them, and the peer, which knows the device by the
// address that the manager has connected to, connects its endpoints with ours there. Such an
// endpoint is of an interface of its own for that address, with a listener there. That one is
// opened when it is needed first, is in no list, and ends with the interface of the device.

// openAt returns the interface for endpoints that peers reach at an address of the device. All
// of 127.0.0.0/8 is one address, that of lo (peerDeviceAddr).
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

// maxOthers is how many other addresses of a device have an interface: a peer chooses at which
// it connects, and a device may have whole networks (the table local of ip-route(8)).
const maxOthers = 64

// makeOtherRoom closes the interfaces of other addresses that nobody uses any more, if there
// are too many.
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

// publish makes the addresses for peers.
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
