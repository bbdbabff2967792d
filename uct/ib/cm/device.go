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

// devices are those that connections go over, open once for all managers of a component,
// while there is one. Any goroutine may use it.
type devices struct {
	source Source

	mu    sync.Mutex
	users int       // guarded by mu: managers
	open  []*device // guarded by mu: those that are there, as far as anybody knows
}

// device is an open one.
type device struct {
	all  *devices
	info verbs.Device
	ctx  *verbs.Context
	pd   *verbs.PD
	cq   *verbs.CQ

	numbers int  // guarded by all.mu: how many are in use
	gone    bool // guarded by all.mu: it is closed when none is
}

// place is where an ID is.
type place struct {
	device *device
	port   int
	link   int // the network interface of the local address, 0 if it has none
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

// at is where an ID is, once its address has chosen a device. Each call asks the device:
// one of the same name may have come in place of one that is gone.
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

// openDevice opens a device with what numbers need.
func (d *devices) openDevice(info *verbs.Device) (*device, error) {
	if info.NodeType.Transport() == verbs.TransportIWARP {
		return nil, fmt.Errorf("rdmacm: %s is an iWARP device: %w", info.Name, ucs.ErrUnsupported)
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

// has looks whether the device is the one where an ID is. With RoCE several may have
// one GUID, but one of them has the address. ucs.ErrNoElem: it is another.
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

// forget is for a device that is gone, or may be: it is opened again if it is needed and
// there. Lock held.
func (dev *device) forget() {
	d := dev.all
	d.open = slices.DeleteFunc(d.open, func(o *device) bool { return o == dev })
	dev.gone = true
	if dev.numbers == 0 {
		dev.ctx.Close() // it has nothing to say any more
	}
}

// removed is told that a device is being taken away, nil for one that is not known. Some
// drivers wait until nobody has it open, so those go that nobody needs.
func (d *devices) removed(dev *device) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, o := range slices.Clone(d.open) {
		if o == dev || o.numbers == 0 {
			o.forget()
		}
	}
}

// portName is the name of a port as C UCX has it (uct_rdmacm_cm_id_to_dev_name), which is
// that of package ib.
func (dev *device) portName(port int) string { return fmt.Sprintf("%s:%d", dev.info.Name, port) }

// zoned is an address of the place, or one that is reached from there. One that means
// something on one link only gets that as its zone, by number, and no other has one: of a
// request the kernel tells none, and of a client one for any address.
func (p *place) zoned(a netip.AddrPort) netip.AddrPort {
	ip := a.Addr().WithZone("")
	if ip.Is6() && ip.IsLinkLocalUnicast() && p.link != 0 {
		ip = ip.WithZone(strconv.Itoa(p.link))
	}
	return netip.AddrPortFrom(ip, a.Port())
}
