//go:build linux

package ib

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"syscall"
	"time"

	"github.com/ucx-go/ucx/internal/netlink"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Domain is an open device. Interfaces of several workers share it: any goroutine may use
// it.
type Domain struct {
	attr     uct.MDAttr
	device   verbs.Device // an outline (verbs.OutlineDevices) until details is done
	source   Source
	details  sync.Once
	ctx      *verbs.Context
	pd       *verbs.PD
	caps     verbs.DeviceAttr
	ports    []*Port // usable ports
	unusable []*Port // the other ports
	gidIndex int     // of UCX_IB_GID_INDEX; -1: any
	access   verbs.Access
	routes   func() (netlink.Routes, error) // returns recent routes
	handles  ahCache
	regions  regionPool
	news     newsDesk
	link     float64 // bandwidth limit between device and memory, in bytes per second
	noDMABuf error   // why memory of other devices cannot be registered; nil if it can
}

var (
	_ uct.MemoryDomain    = (*Domain)(nil)
	_ uct.ValueKeys       = (*Domain)(nil)
	_ uct.DMABufRegistrar = (*Domain)(nil)
	_ uct.Lacking         = (*Domain)(nil)
)

// openDomain opens a device.
func openDomain(c *component, dev *verbs.Device, cfg *config.Set) (_ *Domain, err error) {
	var set domainSettings
	if err := cfg.Load(domainSection, &set); err != nil {
		return nil, err
	}
	d := &Domain{
		device:   *dev,
		source:   c.source,
		gidIndex: set.GIDIndex.Int(-1),
		routes:   new(netlink.Recent).Routes,
	}
	d.attr = domainAttr(c.name, dev.Name, &set)
	d.link = math.Inf(1)
	if s, ok := c.source.(linked); ok {
		d.link = s.PCIBandwidth(&d.device)
	}
	if set.Ordering == config.Yes {
		d.access = verbs.AccessRelaxedOrdering
	}
	if d.ctx, err = c.source.Open(&d.device); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.ctx.Close())
		}
	}()
	if d.pd, err = d.ctx.AllocPD(); err != nil {
		return nil, err
	}
	if d.caps, err = d.ctx.QueryDevice(); err != nil {
		return nil, err
	}
	if d.noDMABuf = d.probeDMABuf(); d.noDMABuf == nil {
		d.attr.Flags |= uct.MDFlagRegDmabuf
	}
	d.handles.pd = d.pd
	d.news.open(d, set.AsyncEvents)
	return d, d.readPorts(&set.Subnet)
}

func domainAttr(component, name string, set *domainSettings) uct.MDAttr {
	host := []ucs.MemoryType{ucs.MemoryHost}
	return uct.MDAttr{
		Component:   component,
		Name:        name,
		Flags:       uct.MDFlagRegister | uct.MDFlagNeedMemh | uct.MDFlagNeedRkey,
		RegTypes:    host,
		AccessTypes: host,
		MaxReg:      math.MaxUint64,
		RegCost: uct.Linear{
			C: set.RegOverhead.Duration(16 * time.Microsecond).Seconds(),
			M: 0.06e-9, // MEM_REG_GROWTH of C UCX
		},
		RkeyPackedSize: rkeySize,
	}
}

// readPorts queries the ports and sorts them into usable and unusable ones.
func (d *Domain) readPorts(subnet *subnetPrefix) error {
	for n := 1; n <= d.caps.Ports; n++ {
		a, err := d.ctx.QueryPort(n)
		if err != nil {
			return err
		}
		p := &Port{Domain: d, Num: n, Attr: a}
		if err := p.place(subnet, d.gidIndex); err != nil {
			return err
		}
		if p.usable() != nil {
			d.unusable = append(d.unusable, p)
			continue
		}
		d.ports = append(d.ports, p)
	}
	return nil
}

// Context returns the open device.
func (d *Domain) Context() *verbs.Context { return d.ctx }

// PD returns the protection domain of all objects in the domain.
func (d *Domain) PD() *verbs.PD { return d.pd }

// Caps returns the device's capabilities.
func (d *Domain) Caps() *verbs.DeviceAttr { return &d.caps }

// Device returns the device's name.
func (d *Domain) Device() string { return d.device.Name }

// Ports returns the usable ports.
func (d *Domain) Ports() []*Port { return d.ports }

// read reads the details of the device from sysfs, once. Reading may take long, so it is done
// only for details that no other call provides.
func (d *Domain) read() *verbs.Device {
	d.details.Do(func() { d.source.Read(&d.device) })
	return &d.device
}

// pkeys returns the partition table of a port.
func (d *Domain) pkeys(port int) []verbs.PKey {
	for _, p := range d.read().Ports {
		if p.Num == port {
			return p.PKeys
		}
	}
	return nil
}

// Attr implements uct.MemoryDomain.
func (d *Domain) Attr() *uct.MDAttr { return &d.attr }

// Resources implements uct.MemoryDomain.
func (d *Domain) Resources() ([]uct.Resource, error) {
	var list []uct.Resource
	for _, t := range transports {
		if t.Check(d) != nil {
			continue
		}
		for _, p := range d.ports {
			list = append(list, p.resource(t.Name))
		}
	}
	return list, nil
}

// Lacks implements uct.Lacking.
func (d *Domain) Lacks(yield func(resource string, why error) bool) {
	for _, p := range d.unusable {
		if !yield(p.Name(), p.usable()) {
			return
		}
	}
	for _, t := range transports {
		if err := t.Check(d); err != nil && !yield(t.Name+"/"+d.device.Name, err) {
			return
		}
	}
}

// OpenIface implements uct.MemoryDomain.
func (d *Domain) OpenIface(w *uct.Worker, p uct.IfaceParams, cfg *config.Set) (uct.Iface, error) {
	for _, t := range transports {
		if t.Name != p.Transport {
			continue
		}
		if err := t.Check(d); err != nil {
			return nil, err
		}
		for _, port := range d.ports {
			if port.Name() == p.Device {
				i, err := t.Open(port, w, p, cfg)
				if err != nil {
					return nil, sys.WithLimit(err)
				}
				return i, nil
			}
		}
	}
	for _, port := range d.unusable {
		if port.Name() == p.Device {
			return nil, port.usable()
		}
	}
	return nil, fmt.Errorf("ib: no %s on %q: %w", p.Transport, p.Device, ucs.ErrNoDevice)
}

// Closed returns the result of closing an object of the device, given the error of its
// Close. If the device is gone, the kernel fails every call; Closed then returns nil,
// because nothing is left to close.
func (d *Domain) Closed(err error) error {
	if err == nil || !errors.Is(err, syscall.EIO) {
		return err
	}
	if _, gone := d.ctx.QueryPort(1); errors.Is(gone, syscall.EIO) {
		return nil
	}
	return err
}

// Close implements uct.MemoryDomain. While an object of the domain is open it returns
// ucs.ErrBusy and closes nothing.
func (d *Domain) Close() error {
	if r, i := d.regions.live(), d.news.watchers(); r != 0 || i != 0 {
		return fmt.Errorf("ib: closing %s with %d interfaces and %d registrations: %w", d.attr.Name, i, r, ucs.ErrBusy)
	}
	return errors.Join(d.Closed(d.handles.close()), d.ctx.Close())
}
