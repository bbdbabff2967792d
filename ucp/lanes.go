package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// lane is one transport connection of an endpoint.
type lane struct {
	iface *iface
	uct   uct.Endpoint
}

// connect chooses the lane toward an address and creates it. Messages and
// rendezvous writes share one connection, so an ATP needs no round trip to stay
// behind the data it announces.
func (ep *Endpoint) connect(addr *proto.WorkerAddress) error {
	w := ep.w
	lanes, _, err := w.selectLanes(addr, ep.errMode)
	if err != nil {
		for _, s := range w.unopened {
			err = fmt.Errorf("%w; not opened: %s", err, s)
		}
		return err
	}
	if lanes.AM == proto.NullLane {
		return fmt.Errorf("ucp: no lane for messages: %w", ucs.ErrUnreachable)
	}
	l := &lanes.Lanes[lanes.AM]
	dev, f := addressEntry(addr, l.Remote)
	i := w.ifaces[l.Local]
	ue, err := i.uct.NewEndpoint(uct.EndpointParams{
		DeviceAddr: dev.Addr,
		IfaceAddr:  f.Addr,
		PathIndex:  l.Path,
		UserData:   ep,
	})
	if err != nil {
		return err
	}
	ep.lanes = []lane{{iface: i, uct: ue}}
	ep.ue = ue
	ep.cfg = w.configFor(i, f.Attr.SegSize)
	return nil
}

// selectLanes decides which interface leads to which entry of an address.
func (w *Worker) selectLanes(addr *proto.WorkerAddress, mode ErrMode) (proto.LaneConfig, proto.LaneTrace, error) {
	eps, _ := w.ctx.estimates()
	// Interfaces that cannot wake a sleeper are not opened where that matters.
	features := proto.Features(w.ctx.params.Features & (FeatureTag | FeatureStream | FeatureAM))
	limits := proto.DefaultLaneLimits()
	limits.Total = 1
	return proto.SelectLanes(&proto.LaneInput{
		Features:  features | proto.FeatureTag, // wireup needs messages in any case
		ErrMode:   mode,
		Keepalive: mode != ErrModeNone,
		Local:     w.locals,
		Remote:    addr,
		Reachable: func(local int, d *proto.AddressDevice, f *proto.AddressIface) error {
			return w.ifaces[local].uct.Reachable(uct.ReachableParams{DeviceAddr: d.Addr, IfaceAddr: f.Addr})
		},
		NumEndpoints: eps,
		RndvScheme:   proto.RndvScheme(w.ctx.settings.RndvScheme),
		Limits:       limits,
	})
}

// addressEntry returns an entry of an address by its number.
func addressEntry(addr *proto.WorkerAddress, index int) (dev *proto.AddressDevice, f *proto.AddressIface) {
	addr.Ifaces(func(n int, d *proto.AddressDevice, i *proto.AddressIface) bool {
		if n == index {
			dev, f = d, i
		}
		return f == nil
	})
	return dev, f
}

// local describes an interface for the selection of lanes.
func (w *Worker) local(i *iface) proto.LocalIface {
	a, md := i.attr, w.mds[i.md].Attr()
	pub := w.publish(i)
	return proto.LocalIface{
		Name:      a.Resource.String(),
		Transport: i.id,
		Device:    w.deviceNumber(i),
		MD: proto.LocalMD{
			Index:    uint8(i.md),
			Register: md.Flags&uct.MDFlagRegister != 0,
			Access:   true,
			Alloc:    md.Flags&uct.MDFlagAlloc != 0,
			NeedMemh: md.Flags&uct.MDFlagNeedMemh != 0,
			NeedRkey: md.Flags&uct.MDFlagNeedRkey != 0,
			RkeyPtr:  md.Flags&uct.MDFlagRkeyPtr != 0,
			RegCost:  proto.Linear(md.RegCost),
		},
		Flags:        proto.IfaceFlags(a.Flags),
		Events:       proto.EventFlags(a.Events),
		Atomic32:     pub.Caps&proto.CapAtomic32 != 0,
		Atomic64:     pub.Caps&proto.CapAtomic64 != 0,
		MaxBcopy:     a.AM.MaxBcopy,
		MaxEndpoints: a.MaxEndpoints,
		NumPaths:     a.NumPaths,
		Overhead:     pub.Overhead,
		Bandwidth:    pub.Bandwidth,
		Latency:      proto.Linear(a.Perf.Latency),
		Priority:     pub.Priority,
	}
}

// deviceNumber gives interfaces of one device the same number.
func (w *Worker) deviceNumber(i *iface) int {
	for k, o := range w.ifaces {
		if o == i || o.md == i.md && o.attr.Resource.Device == i.attr.Resource.Device {
			return k
		}
	}
	return len(w.ifaces)
}

// laneName returns "transport/device" of a lane.
func (ep *Endpoint) laneName(i int) string {
	if i >= len(ep.lanes) {
		return "no lane"
	}
	return ep.lanes[i].iface.attr.Resource.String()
}
