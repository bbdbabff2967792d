package ucp

import (
	"bytes"
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// Second addresses of devices (uct.DualStack). An endpoint goes by one where its peer is not
// reached otherwise, and tells the peer of it, which would not find the way back. Worker
// addresses have them behind all others, if at all, as the first of several equal ways is
// taken.

// dualStack reports whether a device may have a second address.
func (w *Worker) dualStack() bool {
	return slices.ContainsFunc(w.ifaces, func(i *iface) bool {
		_, ok := i.uct.(uct.DualStack)
		return ok
	})
}

// addSecond lists the second addresses that are for every peer.
func (w *Worker) addSecond(a *proto.WorkerAddress, use func(*iface) bool) {
	for _, i := range w.ifaces {
		s, ok := i.uct.(uct.DualStack)
		if !ok || i.failed() || !use(i) {
			continue
		}
		at, ok, err := s.SecondAddress()
		if err != nil {
			w.ctx.log.Diag("a device is listed with one of its addresses", zap.String("worker", w.name),
				zap.Stringer("resource", &i.attr.Resource), zap.Error(err))
		}
		if ok {
			i.addEntry(a, at)
		}
	}
}

// addEntry lists the interface at another address, unless that is listed.
func (i *iface) addEntry(a *proto.WorkerAddress, at uct.ReachableParams) {
	listed := false
	a.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
		listed = f.Transport == i.id && bytes.Equal(d.Addr, at.DeviceAddr) && bytes.Equal(f.Addr, at.IfaceAddr)
		return !listed
	})
	if listed {
		return
	}
	d := i.deviceEntry(at.DeviceAddr)
	d.Ifaces = []proto.AddressIface{i.entry(at.IfaceAddr)}
	a.Devices = append(slices.Clip(a.Devices), d) // which may be the worker's
}

// addOther lists the lane's interface where the peer reaches it, if that is another address
// than its own.
func (l *lane) addOther(a *proto.WorkerAddress) {
	if m, ok := l.uct.(uct.Multihomed); ok {
		if at, other := m.InterfaceAddr(); other {
			l.iface.addEntry(a, at)
		}
	}
}

// wireupAddress is the worker's address for the endpoint's peer.
func (ep *Endpoint) wireupAddress() proto.WorkerAddress {
	a := ep.w.described
	for k := range ep.lanes {
		ep.lanes[k].addOther(&a)
	}
	return a
}
