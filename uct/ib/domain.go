//go:build linux

package ib

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/ucx-go/ucx/internal/netlink"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/internal/events"
	"github.com/ucx-go/ucx/uct/ib/internal/handles"
	"github.com/ucx-go/ucx/uct/ib/internal/memory"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Domain is an open device. Interfaces of several workers share it: any goroutine may use
// it.
type Domain struct {
	memory.Space
	attr     uct.MDAttr
	device   verbs.Device // without details (verbs.OutlineDevices) until the Once details has run
	source   Source
	details  sync.Once
	ctx      *verbs.Context
	pd       *verbs.PD
	caps     verbs.DeviceAttr
	ports    []*Port                        // usable ports
	unusable []*Port                        // the other ports
	gidIndex int                            // value of UCX_IB_GID_INDEX; -1: any
	routes   func() (netlink.Routes, error) // returns recent routes
	handles  *handles.Cache
	events   events.Dispatcher
	link     float64 // bandwidth limit between device and memory, in bytes per second
}

var (
	_ uct.MemoryDomain = (*Domain)(nil)
	_ uct.DeviceMemory = (*Domain)(nil)
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
	var access verbs.Access
	if set.Ordering == config.Yes {
		access = verbs.AccessRelaxedOrdering
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
	if memory.Open(&d.Space, d.ctx, d.pd, d.device.Name, access, locksMemory(d.source)); d.HasDMABuf() {
		d.attr.Flags |= uct.MDFlagRegDmabuf
	}
	d.handles = handles.New(d.pd)
	d.events.Open(d.ctx, set.AsyncEvents)
	if err := d.readPorts(&set.Subnet); err != nil {
		return nil, err
	}
	d.attr.Missing = d.missing()
	return d, nil
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
		RkeyPackedSize: memory.KeySize,
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

// Handles returns the address handles of the device.
func (d *Domain) Handles() *handles.Cache { return d.handles }

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

// missing returns the ports and transports that cannot be used, with the reasons.
func (d *Domain) missing() (list []uct.MissingResource) {
	for _, p := range d.unusable {
		list = append(list, uct.MissingResource{Name: p.Name(), Reason: p.usable()})
	}
	for _, t := range transports {
		if err := t.Check(d); err != nil {
			list = append(list, uct.MissingResource{Name: t.Name + "/" + d.device.Name, Reason: err})
		}
	}
	return list
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

// Close implements uct.MemoryDomain. While an object of the domain is open it returns
// ucs.ErrBusy and closes nothing.
func (d *Domain) Close() error {
	if r, i := d.Registrations(), d.events.Boxes(); r != 0 || i != 0 {
		return fmt.Errorf("ib: closing %s with %d interfaces and %d registrations: %w", d.attr.Name, i, r, ucs.ErrBusy)
	}
	return errors.Join(d.Closed(d.handles.Close()), d.ctx.Close())
}
