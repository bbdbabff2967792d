//go:build linux

package ib

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/internal/topo"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// componentName is the name of the component, as C UCX has it.
const componentName = "ib"

// Source gives a component its devices.
type Source interface {
	// Devices lists the devices, each with what Open needs.
	Devices() ([]verbs.Device, error)

	// Open opens a device.
	Open(d *verbs.Device) (*verbs.Context, error)

	// Read fills in the details of a device from sysfs.
	Read(d *verbs.Device)
}

type component struct {
	name   string
	source Source
}

func init() { uct.Register(NewComponent(componentName, system{})) }

// NewComponent makes a component over other devices than the system's: devices without a
// kernel, for tests.
func NewComponent(name string, s Source) uct.Component { return &component{name, s} }

// system is the devices of this machine.
type system struct{}

func (system) Devices() ([]verbs.Device, error)             { return verbs.OutlineDevices("") }
func (system) Open(d *verbs.Device) (*verbs.Context, error) { return d.Open() }
func (system) Read(d *verbs.Device)                         { d.Read("") }

// PCIBandwidth implements linked.
func (system) PCIBandwidth(d *verbs.Device) float64 {
	return topo.PCIBandwidth(filepath.Join("/sys/class/infiniband", d.Name, "device"))
}

// linked is a Source that knows the bandwidth of its devices' PCI links.
type linked interface {
	// PCIBandwidth returns the bandwidth of the device's PCI link, in bytes per second. It is
	// infinite if it is unknown, as for a device without such a link.
	PCIBandwidth(d *verbs.Device) float64
}

// TrafficClass implements classed.
func (system) TrafficClass(d *verbs.Device, port int) (uint8, bool) {
	return d.TrafficClass("", port)
}

// classed is a Source whose ports may have a traffic class that the administrator has set.
type classed interface {
	// TrafficClass returns the default traffic class of a port's RoCE packets; ok is false if
	// none is set.
	TrafficClass(d *verbs.Device, port int) (class uint8, ok bool)
}

// Counter implements counted.
func (system) Counter(d *verbs.Device, port int, name string) (uint64, bool) {
	return d.Counter("", port, name)
}

// counted is a Source whose drivers keep counters of their ports.
type counted interface {
	// Counter returns the counter of that name; ok is false if there is none.
	Counter(d *verbs.Device, port int, name string) (n uint64, ok bool)
}

// BondPorts implements bonded.
func (system) BondPorts(link int) int { return topo.BondPorts(link) }

// bonded is a Source that knows which network interfaces are bonds.
type bonded interface {
	// BondPorts returns the number of links over which a bond in mode 802.3ad spreads its packets;
	// 1 if the interface is not such a bond. link is the index of the network interface.
	BondPorts(link int) int
}

// Name implements uct.Component.
func (c *component) Name() string { return c.name }

// Flags implements uct.Component.
func (c *component) Flags() uct.ComponentFlags { return 0 }

// Transports implements uct.Component.
func (c *component) Transports() (names []string) {
	for i := range transports {
		names = append(names, transports[i].Name)
	}
	return names
}

// MemoryDomains implements uct.Component: there is one for each device.
func (c *component) MemoryDomains(*config.Set) ([]uct.MDResource, error) {
	devices, err := c.source.Devices()
	if err != nil {
		return nil, sys.WithLimit(err)
	}
	if len(devices) == 0 {
		return nil, statuserr.Matching(c.absent(), ucs.ErrNoDevice)
	}
	list := make([]uct.MDResource, len(devices))
	for i := range devices {
		list[i].Name = devices[i].Name
	}
	return list, nil
}

// absent returns the reason why there is no device.
func (c *component) absent() error {
	if s, ok := c.source.(explaining); ok {
		return s.Absent()
	}
	return errors.New("there is no RDMA device")
}

// lockless is a Source of devices that lock no memory, such as simulated devices. The limit of
// the process on locked memory does not apply to them.
type lockless interface{ LocksNothing() }

// locksMemory reports whether memory registered with a source's devices is locked.
func locksMemory(s Source) bool {
	_, no := s.(lockless)
	return !no
}

// explaining is a Source that knows why it has no devices.
type explaining interface {
	// Absent returns what is missing.
	Absent() error
}

// Absent implements explaining.
func (system) Absent() error { return absent("") }

// absent returns the reason why programs cannot open an RDMA device; root is as in
// verbs.Devices.
func absent(root string) error {
	devices, err := verbs.AllDevices(root)
	switch {
	case err != nil:
		return err
	case len(devices) > 0:
		return fmt.Errorf("programs cannot open the RDMA device %s: the kernel's module ib_uverbs is not loaded (modprobe ib_uverbs)", devices[0].Name)
	}
	return errors.New("there is no RDMA device: no adapter's kernel module is loaded (as mlx5_ib), " +
		"nor is there a device in software (modprobe rdma_rxe; rdma link add rxe0 type rxe netdev eth0)")
}

// OpenMD implements uct.Component.
func (c *component) OpenMD(name string, cfg *config.Set) (uct.MemoryDomain, error) {
	devices, err := c.source.Devices()
	if err != nil {
		return nil, sys.WithLimit(err)
	}
	for i := range devices {
		if devices[i].Name == name {
			d, err := openDomain(c, &devices[i], cfg)
			if err != nil {
				return nil, sys.WithLimit(err)
			}
			return d, nil
		}
	}
	return nil, fmt.Errorf("ib: no device %q: %w", name, ucs.ErrNoDevice)
}
