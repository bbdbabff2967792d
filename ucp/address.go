package ucp

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// ownAddress is the address of a worker.
type ownAddress struct {
	w         *Worker
	described proto.WorkerAddress // the address as of the last packAddress, without the token
	address   Address             // the field described in packed form, with the worker's token
}

// Address is a packed worker address. A peer, in Go or C, needs it to reach the worker; the
// application passes it on.
type Address []byte

// AddressFlags select what goes into an address
// (enum ucp_worker_address_flags_t).
type AddressFlags uint32

// AddressNetOnly leaves out transports that work only inside a host.
const AddressNetOnly AddressFlags = 1 << 0

// Address returns the worker's current address. A transport that had to rebuild its receive
// side has a new address, and endpoints made with the old one fail. With WorkerParams.Token
// the address carries a secret: give it only to processes that may connect. The caller owns
// the returned bytes.
func (w *Worker) Address(flags AddressFlags) (Address, error) {
	if w.missing() {
		return nil, errMissing("Worker.Address", w == nil)
	}
	if flags&^AddressNetOnly != 0 {
		return nil, fmt.Errorf("ucp: Address with unknown flags %#x: %w", uint32(flags&^AddressNetOnly), ucs.ErrInvalidParam)
	}
	w.owner.acquire()
	a, err := w.own.addressNow(flags)
	w.owner.release()
	return a, err
}

func (oa *ownAddress) addressNow(flags AddressFlags) (Address, error) {
	w := oa.w
	if flags&AddressNetOnly == 0 {
		if err := oa.packAddress(); err != nil {
			return nil, err
		}
		return append(Address(nil), oa.address...), nil
	}
	between := func(i *iface) bool { return i.attr.Flags.Has(uct.IfaceInterNode) }
	a := oa.describe(between)
	oa.addSecond(&a, between)
	a.Token = w.admission.gate.Tokens.Secret
	return a.Append(nil, proto.FormWorker)
}

// UID returns the id of the worker that the address belongs to. The bytes of the address
// are untrusted.
func (a Address) UID() (uint64, error) {
	p, _, err := proto.ParseAddress(a, proto.FormWorker)
	if err != nil {
		return 0, err
	}
	return p.UUID, nil
}

// packAddress updates the fields described and address. It does nothing if no interface has changed
// its address or has failed since the last call.
func (oa *ownAddress) packAddress() error {
	w := oa.w
	if oa.address != nil && !slices.ContainsFunc(w.ifaces, (*iface).moved) {
		return nil
	}
	all := func(*iface) bool { return true }
	described := oa.describe(all)
	oa.addSecond(&described, all)
	given := described
	given.Token = w.admission.gate.Tokens.Secret
	packed, err := given.Append(nil, proto.FormWorker)
	if err != nil {
		return err
	}
	oa.described, oa.address = described, packed
	for _, i := range w.ifaces {
		i.published, i.withdrawn = bytes.Clone(i.uct.Address()), i.failed()
	}
	return nil
}

// moved reports whether the interface's address or its failure state differs from what the worker's
// address was packed with.
func (i *iface) moved() bool {
	return i.withdrawn != i.failed() || !bytes.Equal(i.published, i.uct.Address())
}

// failed reports whether the interface has failed by itself, so that peers cannot reach it.
func (i *iface) failed() bool {
	n, ok := i.uct.(uct.NetworkIface)
	return ok && n.Failed() != nil
}

// describe returns an address of the worker with the interfaces for which use returns true and
// which have not failed. Interfaces of one device and domain share an entry.
func (oa *ownAddress) describe(use func(*iface) bool) proto.WorkerAddress {
	a := oa.emptyAddress()
	at := make(map[string]int)
	for _, i := range oa.listed() {
		if i.failed() || !use(i) {
			continue
		}
		dev := i.uct.DeviceAddress()
		key := fmt.Sprintf("%d %s %x", i.md, i.attr.Resource.Device, dev)
		k, ok := at[key]
		if !ok {
			k = len(a.Devices)
			at[key] = k
			a.Devices = append(a.Devices, i.deviceEntry(dev))
		}
		a.Devices[k].Ifaces = append(a.Devices[k].Ifaces, i.entry(bytes.Clone(i.uct.Address()))) // copied, because it may change
	}
	return a
}

// listed returns the interfaces in the order of an address: by component, posix before sysv. Of two
// interfaces that are otherwise equal a peer takes the first, also a peer of C UCX.
func (oa *ownAddress) listed() []*iface {
	w := oa.w
	return slices.SortedStableFunc(slices.Values(w.ifaces), func(a, b *iface) int {
		return cmp.Compare(w.ctx.mds[a.md].component.Name(), w.ctx.mds[b.md].component.Name())
	})
}

// deviceEntry returns the entry of the interface's device in an address; the method entry returns
// the entry of the interface itself.
func (i *iface) deviceEntry(addr []byte) proto.AddressDevice {
	return proto.AddressDevice{
		MD:       uint8(i.md),
		NumPaths: uint8(min(max(i.attr.NumPaths, 1), 255)),
		SysDev:   proto.SysDevUnknown,
		Addr:     addr,
	}
}

func (i *iface) entry(addr []byte) proto.AddressIface {
	return proto.AddressIface{Transport: i.id, Attr: i.w.own.publish(i), RscIndex: i.index, Addr: addr}
}

// publishedSeg returns the value that an address gives as an interface's longest message in bytes,
// 0 if the address version cannot express it (ucp_address_iface_seg_size in
// src/ucp/wireup/address.c).
func (oa *ownAddress) publishedSeg(a *uct.IfaceAttr) int {
	w := oa.w
	switch {
	case w.ctx.settings.AddressVersion == addressVersion(proto.AddressV1):
		return 0
	case a.Flags.Has(uct.IfaceAMBcopy):
		return a.AM.MaxBcopy
	case a.Flags.Has(uct.IfaceAMZcopy):
		return a.AM.MaxZcopy
	}
	return a.AM.MaxShort
}

// addressName returns the debug name of the worker that UCX_ADDRESS_DEBUG_INFO puts into addresses.
func (s *settings) addressName() string {
	host, _ := os.Hostname()
	name := fmt.Sprintf("%s:%d", host, platform.Pid())
	return name[:min(len(name), int(min(s.AddressNameMax, 255)))]
}

// publish returns the attributes of an interface as peers see them.
func (oa *ownAddress) publish(i *iface) proto.IfaceAttr {
	w := oa.w
	_, ppn := w.ctx.estimates()
	p := &i.attr.Perf
	a := proto.IfaceAttr{
		Overhead:  p.Overhead,
		Bandwidth: p.Bandwidth(ppn),
		Latency:   p.Latency.C,
		Priority:  p.Priority,
		SegSize:   oa.publishedSeg(i.attr),
	}
	a.Caps = proto.Caps(i.attr)
	a.Flags = a.Caps.Peer()
	return a
}

// emptyAddress returns the address for messages that need not tell the peer how to reach the
// worker. It identifies the sender, and has no devices.
func (oa *ownAddress) emptyAddress() proto.WorkerAddress {
	w := oa.w
	s := &w.ctx.settings
	a := proto.WorkerAddress{Version: proto.AddressVersion(s.AddressVersion), Flags: proto.AddressHasUUID, UUID: w.uuid}
	if s.AddressName {
		a.Flags |= proto.AddressHasName
		a.Name = s.addressName()
	}
	return a
}

// Second addresses of devices: a device may have an IPv4 and an IPv6 address (uct.NetworkIface). An
// endpoint uses a second address if its peer cannot be reached otherwise. It then sends this
// address to the peer, because the peer could not find the route back otherwise. In a worker
// address the second addresses come last, because a peer takes the first of several entries that
// are equally good.

// dualStack reports whether a device may have a second address.
func (oa *ownAddress) dualStack() bool {
	w := oa.w
	return slices.ContainsFunc(w.ifaces, func(i *iface) bool {
		_, ok := i.uct.(uct.NetworkIface)
		return ok
	})
}

// addSecond adds the second addresses that are published to every peer.
func (oa *ownAddress) addSecond(a *proto.WorkerAddress, use func(*iface) bool) {
	w := oa.w
	for _, i := range w.ifaces {
		s, ok := i.uct.(uct.NetworkIface)
		if !ok || i.failed() || !use(i) {
			continue
		}
		at, ok, err := s.SecondAddress()
		if err != nil {
			w.ctx.log.Diag("worker address contains only one address of a device", zap.String("worker", w.name),
				zap.Stringer("resource", &i.attr.Resource), zap.Error(err))
		}
		if ok {
			i.addEntry(a, at)
		}
	}
}

// addEntry adds the interface at another address to a, unless a has that entry.
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
	a.Devices = append(slices.Clip(a.Devices), d) // clipped, because the list may be the worker's own
}

// addOther adds to a the address at which the peer reaches the lane's interface, if that address
// differs from the interface's own.
func (l *lane) addOther(a *proto.WorkerAddress) {
	if m, ok := l.uct.(uct.NetworkEndpoint); ok {
		if at, other := m.InterfaceAddr(); other {
			l.iface.addEntry(a, at)
		}
	}
}

// wireupAddress returns the worker's address for a message to the endpoint's peer. It includes the
// addresses of lanes that the peer reaches at another address of the device.
func (ws *wireupState) wireupAddress(ep *Endpoint) proto.WorkerAddress {
	a := ep.w.own.described
	for k := range ep.lanes {
		ep.lanes[k].addOther(&a)
	}
	return a
}
