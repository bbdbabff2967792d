//go:build linux

package cm

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// devices is the set of devices that connections use. All managers of a component share the open
// devices, which are closed with the last manager. Any goroutine may use devices.
type devices struct {
	source Source

	mu    sync.Mutex
	users int       // guarded by mu: number of managers
	open  []*device // guarded by mu: open devices, without those known to be removed
}

// device is an open device.
type device struct {
	all  *devices
	info verbs.Device
	ctx  *verbs.Context
	pd   *verbs.PD
	cq   *verbs.CQ

	numbers int  // guarded by all.mu: number of queue pair numbers in use
	gone    bool // guarded by all.mu: removed from all.open; closed when numbers is 0
}

// place is the device and the port that a connection identifier (rdmacm.ID) is bound to.
type place struct {
	device *device
	port   int
	link   int // index of the network interface that has the local address, 0 if none has
}

func (d *devices) retain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.users++
}

func (d *devices) release() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.users--; d.users > 0 {
		return nil
	}
	var errs []error
	for _, dev := range d.open {
		errs = append(errs, dev.ctx.Close())
	}
	d.open = nil
	return errors.Join(errs...)
}

// at returns the device and the port of an ID with the address a. The kernel must have chosen a
// device for the ID. Each call queries the device, because a new device of the same name may have
// replaced one that is gone.
func (d *devices) at(a *rdmacm.Addr) (place, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a.NodeGUID == 0 || !a.Src.IsValid() {
		return place{}, fmt.Errorf("rdmacm: no device has %v: %w", a.Src, ucs.ErrNoDevice)
	}
	for _, dev := range slices.Clone(d.open) {
		if dev.info.NodeGUID != a.NodeGUID {
			continue
		}
		p, err := dev.has(a)
		if err == nil {
			return p, nil
		}
		if !errors.Is(err, ucs.ErrNoElem) {
			dev.forget()
		}
	}
	list, err := d.source.Devices()
	if err != nil {
		return place{}, err
	}
	err = fmt.Errorf("rdmacm: no device with the GUID %v has %v: %w", a.NodeGUID, a.Src, ucs.ErrNoDevice)
	for k := range list {
		if list[k].NodeGUID != a.NodeGUID || slices.ContainsFunc(d.open, func(dev *device) bool { return dev.info.Name == list[k].Name }) {
			continue
		}
		dev, why := d.openDevice(&list[k])
		if why != nil {
			err = fmt.Errorf("%w; %w", err, why)
			continue
		}
		p, why := dev.has(a)
		if why == nil {
			d.open = append(d.open, dev)
			return p, nil
		}
		err = errors.Join(fmt.Errorf("%w; %w", err, why), dev.ctx.Close())
	}
	return place{}, err
}

// openDevice opens a device, with the protection domain and the completion queue that are needed to
// reserve queue pair numbers (number.go).
func (d *devices) openDevice(info *verbs.Device) (*device, error) {
	if info.NodeType.Transport() == verbs.TransportIWARP {
		return nil, fmt.Errorf("rdmacm: %s is an iWARP device, which is not supported: %w", info.Name, ucs.ErrUnsupported)
	}
	dev := &device{all: d, info: *info}
	var err error
	if dev.ctx, err = d.source.Open(info); err != nil {
		return nil, err
	}
	if dev.pd, err = dev.ctx.AllocPD(); err == nil {
		dev.cq, err = dev.ctx.CreateCQ(1, nil, 0)
	}
	if err != nil {
		return nil, errors.Join(err, dev.ctx.Close())
	}
	return dev, nil
}

// has returns the device and the port of an ID if it is on the device, and ucs.ErrNoElem if it is
// on another one. With RoCE several devices may have the same GUID, but only one of them has the
// address.
func (dev *device) has(a *rdmacm.Addr) (place, error) {
	p := place{device: dev, port: a.Port}
	port, err := dev.ctx.QueryPort(a.Port)
	if err != nil || port.LinkLayer != verbs.LinkEthernet {
		return p, err
	}
	table, err := dev.ctx.QueryGIDTable()
	if err != nil {
		return p, err
	}
	gid := verbs.GIDFromAddr(a.Src.Addr().WithZone(""))
	for k := range table {
		if g := &table[k]; g.Port == a.Port && g.GID == gid {
			p.link = g.IfIndex
			return p, nil
		}
	}
	return p, fmt.Errorf("rdmacm: port %d of %s does not have %v: %w", a.Port, dev.info.Name, a.Src.Addr(), ucs.ErrNoElem)
}

// forget removes a device that is gone, or may be gone, from the open ones. A later call of at
// opens the device again if it exists. The caller holds all.mu.
func (dev *device) forget() {
	d := dev.all
	d.open = slices.DeleteFunc(d.open, func(o *device) bool { return o == dev })
	dev.gone = true
	if dev.numbers == 0 {
		dev.ctx.Close() // the error of a device that is gone has no meaning
	}
}

// removed handles the removal of a device; dev is nil if the device is not known. Some drivers
// wait until no process has the device open, so removed forgets that device and closes all unused
// ones.
func (d *devices) removed(dev *device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range slices.Clone(d.open) {
		if o == dev || o.numbers == 0 {
			o.forget()
		}
	}
}

// portName returns the name of a port, which is the same in C UCX (uct_rdmacm_cm_id_to_dev_name)
// and in package ib.
func (dev *device) portName(port int) string { return fmt.Sprintf("%s:%d", dev.info.Name, port) }

// zoned sets the zone of a local address, or of a remote address that is reached through the port.
// A link-local IPv6 address gets the index of the network interface as its zone; any other address
// gets no zone. The kernel reports no zones for a request, and a zone for any address of a client.
func (p *place) zoned(a netip.AddrPort) netip.AddrPort {
	ip := a.Addr().WithZone("")
	if ip.Is6() && ip.IsLinkLocalUnicast() && p.link != 0 {
		ip = ip.WithZone(strconv.Itoa(p.link))
	}
	return netip.AddrPortFrom(ip, a.Port())
}
