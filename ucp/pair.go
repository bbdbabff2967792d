package ucp

import (
	"bytes"
	"fmt"
	"math/bits"
	"slices"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// The ends of lanes that are connected pairwise, and which belong together.

// wireupLane is the lane of a wireup message: as long as the peer's end of the one for them
// may not be connected one that was before, or the auxiliary one.
func (ep *Endpoint) wireupLane(t proto.WireupType) uint8 {
	k := ep.cfg.lanes.wireupLane(t)
	p := ep.pair
	switch {
	case p == nil || t == proto.WireupAck:
	case p.aux.uct != nil && (p.conn != nil || p.lanes&(1<<k) != 0):
		return auxNumber
	case p.kept != 0 && p.kept&(1<<k) == 0:
		return uint8(bits.TrailingZeros64(p.kept))
	}
	return k
}

// laneAddress describes lanes of the endpoint to its peer: those in which, and of these
// the ends of the ones that are connected pairwise, under the numbers that number gives
// them.
func (ep *Endpoint) laneAddress(which uint64, number func(lane int) uint8) (proto.WorkerAddress, error) {
	has := func(i *iface) bool {
		for k := range ep.lanes {
			if which&(1<<k) != 0 && ep.lanes[k].iface == i {
				return true
			}
		}
		return ep.pair.aux.iface == i && which == allLanes && ep.pair.conn == nil
	}
	a := ep.w.describe(has)
	err := ep.addEnds(&a, which, number)
	for k := range ep.lanes {
		if which&^ep.pair.lanes&(1<<k) != 0 {
			ep.lanes[k].addOther(&a)
		}
	}
	if which == allLanes && ep.pair.conn == nil {
		ep.pair.aux.addOther(&a)
	}
	return a, err
}

// addEnds puts the ends of lanes into an address of the worker. A device is at the address at
// which the peer reaches it.
func (ep *Endpoint) addEnds(a *proto.WorkerAddress, which uint64, number func(lane int) uint8) (failed error) {
	a.Ifaces(func(_ int, dev *proto.AddressDevice, f *proto.AddressIface) bool {
		for k := range ep.lanes {
			if ep.pair.lanes&which&(1<<k) == 0 || ep.lanes[k].iface.index != f.RscIndex {
				continue
			}
			end, err := ep.lanes[k].uct.(uct.Paired).Address()
			if err != nil {
				failed = fmt.Errorf("ucp: address of lane %d of endpoint %s: %w", k, ep.describe(), err)
				return false
			}
			f.EpAddrs = append(f.EpAddrs, proto.AddressEp{Lane: number(k), Addr: end})
			if m, ok := ep.lanes[k].uct.(uct.Multihomed); ok {
				if at, other := m.InterfaceAddr(); other {
					dev.Addr, f.Addr = at.DeviceAddr, at.IfaceAddr
				}
			}
		}
		return true
	})
	return failed
}

// allLanes are those of an endpoint, whatever there are, and the auxiliary one.
const allLanes = ^uint64(0)

// laneNumbers are numbers of the peer's lanes, by ours.
type laneNumbers [proto.MaxLanes]uint8

// match finds which ends in the address of a request are for our lanes, which were chosen
// toward it: those that they are connected with, of the others one after the other.
func (ep *Endpoint) match(addr *proto.WorkerAddress) (numbers laneNumbers, err error) {
	p := ep.pair
	var taken uint64
	for _, joined := range []bool{true, false} {
		for rest := p.lanes; rest != 0; rest &= rest - 1 {
			k := bits.TrailingZeros64(rest)
			if (p.joined&(1<<k) != 0) != joined {
				continue
			}
			dev, f := addr.Entry(int(p.entries[k]))
			if f == nil {
				return numbers, fmt.Errorf("ucp: the peer has no endpoint for lane %s: %w", ep.laneName(k), ucs.ErrUnreachable)
			}
			e := slices.IndexFunc(f.EpAddrs, func(e proto.AddressEp) bool {
				return e.Lane < proto.MaxLanes && taken&(1<<e.Lane) == 0 && (!joined || ep.lanes[k].leadsTo(dev, f, e.Addr))
			})
			if e < 0 {
				return numbers, fmt.Errorf("ucp: the peer has no endpoint for lane %s: %w", ep.laneName(k), ucs.ErrUnreachable)
			}
			numbers[k] = f.EpAddrs[e].Lane
			taken |= 1 << numbers[k]
		}
	}
	return numbers, nil
}

// join connects the lanes with the ends in an address that have these numbers there. The
// ends must be where the lanes were chosen toward: to another place, of this machine say,
// the peer may not send us. That is nil for data of a connection manager, which knows the
// device, and where the addresses of interfaces may mean nothing (proto.FormCMBoth).
func (ep *Endpoint) join(addr *proto.WorkerAddress, number func(lane int) uint8, chosen *proto.WorkerAddress) error {
	p := ep.pair
	for rest := p.lanes &^ p.joined; rest != 0; rest &= rest - 1 {
		k := bits.TrailingZeros64(rest)
		dev, f, end := endOf(addr, number(k))
		if end == nil {
			return fmt.Errorf("ucp: the peer has made no endpoint for lane %s: %w", ep.laneName(k), ucs.ErrUnreachable)
		}
		var iface []byte
		if chosen != nil {
			iface = f.Addr
			d, i := chosen.Entry(int(p.entries[k]))
			if i == nil || i.Transport != f.Transport || !bytes.Equal(d.Addr, dev.Addr) || !bytes.Equal(i.Addr, f.Addr) {
				return fmt.Errorf("ucp: the peer's endpoint for lane %s is at another interface: %w", ep.laneName(k), ucs.ErrInvalidAddr)
			}
		}
		if err := ep.lanes[k].uct.(uct.Paired).ConnectToEP(dev.Addr, iface, end); err != nil {
			return fmt.Errorf("ucp: connecting lane %s: %w", ep.laneName(k), err)
		}
		p.joined |= 1 << k
	}
	return nil
}

// endOf returns the end with a number, and the device and interface it is at.
func endOf(addr *proto.WorkerAddress, number uint8) (dev *proto.AddressDevice, at *proto.AddressIface, end []byte) {
	addr.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
		if e := slices.IndexFunc(f.EpAddrs, func(e proto.AddressEp) bool { return e.Lane == number }); e >= 0 {
			dev, at, end = d, f, f.EpAddrs[e].Addr
		}
		return end == nil
	})
	return dev, at, end
}
