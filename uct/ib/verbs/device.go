//go:build linux

package verbs

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/ucx-go/ucx/ucs"
)

// Device is an RDMA device as sysfs describes it. It is a value: reading it opens nothing.
// What the kernel does not report is zero, unless the field says otherwise.
type Device struct {
	Name         string // rxe0, mlx5_0
	Uverbs       string // uverbs0; "" if there is none, see AllDevices
	Path         string // /dev/infiniband/uverbs0
	Rdev         uint64 // the device number of that node
	ABIVersion   int    // of the driver
	Driver       string // of the device below: mlx5_core, ice; rxe and siw have none
	NodeType     NodeType
	NodeGUID     GUID
	SysImageGUID GUID
	Firmware     string
	BoardID      string
	NodeDesc     string
	Parent       string // the network interface below rxe
	HCAType      string // MT4123; of mlx5 and others
	PCI          string // 0000:81:00.0; "" if it is not a PCI device
	PCIVendor    uint16 // 0x15b3; 0 if it is not a PCI device
	PCIDevice    uint16
	NUMANode     int // -1 if unknown
	Ports        []Port
}

// Port is a port of a Device.
type Port struct {
	Num       int
	State     PortState
	PhysState string // LinkUp
	LinkLayer LinkLayer
	LID       LID
	SMLID     LID
	Rate      float64 // Gb/s
	RateText  string  // 100 Gb/sec (4X EDR)
	GIDs      []PortGID
	PKeys     []PKey // with their index; 0 is empty. After EventPKeyChange, list the device again
}

// PortGID is an entry of a port's GID table that is not empty.
type PortGID struct {
	Index  int
	GID    GID
	Type   GIDType
	NetDev string // the network interface, if any
}

const (
	sysfs = "/sys"
	// What is read at most: devices, ports of one (where each virtual function has one
	// there are hundreds), entries of a table of a port (the index has 16 bits).
	maxDevices = 1 << 12
	maxPorts   = 1 << 12
	maxTable   = 1 << 16
	// coreABI is the only version of the core that kernels of interest have.
	coreABI = 6
)

// Devices lists the RDMA devices in their order; ibv_get_device_list. root is the mount
// point of sysfs, /sys if empty. Without the kernel's modules the list is empty.
func Devices(root string) ([]Device, error) {
	return readAll(root, outlines)
}

// readAll reads what outline lists.
func readAll(root string, outline func(root string) ([]Device, error)) ([]Device, error) {
	found, err := outline(root)
	for i := range found {
		found[i].read(root)
	}
	return found, err
}

// OutlineDevices is like Devices, but reads of each device only what Open needs, its type
// and its GUID. Device.Read reads the rest, which takes long if the GID table is large, as
// it has a file for each entry.
func OutlineDevices(root string) ([]Device, error) { return outlines(root) }

func outlines(root string) ([]Device, error) {
	if root == "" {
		root = sysfs
	}
	class := filepath.Join(root, "class/infiniband_verbs")
	names, err := list(class, maxDevices)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("verbs: %w: %w", err, ucs.ErrIO)
	}
	if v, ok := readInt(filepath.Join(class, "abi_version")); ok && v != coreABI {
		return nil, fmt.Errorf("verbs: the kernel's interface has version %d, not %d: %w", v, coreABI, ucs.ErrUnsupported)
	}
	var found []Device
	for _, uverbs := range names {
		if !strings.HasPrefix(uverbs, "uverbs") {
			continue
		}
		dir := filepath.Join(class, uverbs)
		name := readText(filepath.Join(dir, "ibdev"))
		if !plain(name) {
			continue // going, or not ours to see
		}
		d := Device{Name: name, Uverbs: uverbs, Path: filepath.Join("/dev/infiniband", uverbs)}
		d.ABIVersion, _ = readInt(filepath.Join(dir, "abi_version"))
		d.Rdev = parseRdev(readText(filepath.Join(dir, "dev")))
		d.identify(filepath.Join(root, "class/infiniband", name))
		found = append(found, d)
	}
	sort.SliceStable(found, func(i, j int) bool { return order(found[i].Uverbs) < order(found[j].Uverbs) })
	return found, nil
}

// AllDevices returns the list of Devices, followed by the devices that programs cannot
// open, because the kernel's module ib_uverbs is not loaded or does not support them. These
// have no Uverbs.
func AllDevices(root string) ([]Device, error) {
	return readAll(root, allOutlines)
}

func allOutlines(root string) ([]Device, error) {
	if root == "" {
		root = sysfs
	}
	found, err := outlines(root)
	if err != nil {
		return nil, err
	}
	known := make(map[string]bool)
	for i := range found {
		known[found[i].Name] = true
	}
	class := filepath.Join(root, "class/infiniband")
	names, err := list(class, maxDevices)
	if err != nil && !os.IsNotExist(err) {
		return nil, fmt.Errorf("verbs: %w: %w", err, ucs.ErrIO)
	}
	for _, name := range names {
		if !known[name] && plain(name) {
			found = append(found, Device{Name: name})
		}
	}
	return found, nil
}

// FindDevice returns the device with that name, of the device or its node, from AllDevices.
func FindDevice(root, name string) (*Device, error) {
	found, err := allOutlines(root)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range found {
		if found[i].Name == name || found[i].Uverbs == name && name != "" {
			found[i].read(root)
			return &found[i], nil
		}
		names = append(names, found[i].Name)
	}
	return nil, fmt.Errorf("verbs: no device %s, there are [%s]: %w", name, strings.Join(names, " "), ucs.ErrNoDevice)
}

// order is the number at the end of a name.
func order(name string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "uverbs"))
	return n
}

// Read reads the device's attributes from sysfs again. root is as in Devices.
func (d *Device) Read(root string) { d.read(root) }

// read reads the device's folder of class/infiniband.
func (d *Device) read(root string) {
	if root == "" {
		root = sysfs
	}
	dir := filepath.Join(root, "class/infiniband", d.Name)
	d.identify(dir)
	d.SysImageGUID = parseGUID(readText(filepath.Join(dir, "sys_image_guid")))
	d.Firmware = readText(filepath.Join(dir, "fw_ver"))
	d.BoardID = readText(filepath.Join(dir, "board_id"))
	d.NodeDesc = readText(filepath.Join(dir, "node_desc"))
	d.Parent = readText(filepath.Join(dir, "parent"))
	d.HCAType = readText(filepath.Join(dir, "hca_type"))
	d.Driver = linked(filepath.Join(dir, "device/driver"))
	d.NUMANode = -1
	if n, ok := readInt(filepath.Join(dir, "device/numa_node")); ok && n >= 0 {
		d.NUMANode = n
	}
	if slot := linked(filepath.Join(dir, "device")); isPCI(slot) {
		d.PCI = slot
		d.PCIVendor = hexInt(readText(filepath.Join(dir, "device/vendor")))
		d.PCIDevice = hexInt(readText(filepath.Join(dir, "device/device")))
	}
	for _, n := range numbers(filepath.Join(dir, "ports"), maxPorts) {
		d.Ports = append(d.Ports, readPort(filepath.Join(dir, "ports", strconv.Itoa(n)), n))
	}
}

// TrafficClass returns the traffic class that the administrator has set for all RoCE
// traffic of a port, as "Global tclass=106" in the tc folder of mlx5's drivers. ok is false
// if none is set. root is as in Devices.
func (d *Device) TrafficClass(root string, port int) (class uint8, ok bool) {
	if root == "" {
		root = sysfs
	}
	text := readText(filepath.Join(root, "class/infiniband", d.Name, "tc", strconv.Itoa(port), "traffic_class"))
	text, ok = strings.CutPrefix(text, "Global tclass=")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(text, 10, 8)
	return uint8(n), err == nil
}

// Counter returns one of the driver's own counters of a port, from its folder hw_counters.
// ok is false if there is no counter of that name. root is as in Devices.
func (d *Device) Counter(root string, port int, name string) (n uint64, ok bool) {
	if root == "" {
		root = sysfs
	}
	text := readText(filepath.Join(root, "class/infiniband", d.Name, "ports", strconv.Itoa(port), "hw_counters", name))
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil
}

// identify reads what tells the device from others.
func (d *Device) identify(dir string) {
	d.NodeType = NodeType(leadingInt(readText(filepath.Join(dir, "node_type"))))
	d.NodeGUID = parseGUID(readText(filepath.Join(dir, "node_guid")))
}

func readPort(dir string, num int) Port {
	p := Port{
		Num:       num,
		State:     PortState(leadingInt(readText(filepath.Join(dir, "state")))),
		LinkLayer: parseLinkLayer(readText(filepath.Join(dir, "link_layer"))),
		LID:       LID(hexInt(readText(filepath.Join(dir, "lid")))),
		SMLID:     LID(hexInt(readText(filepath.Join(dir, "sm_lid")))),
		RateText:  readText(filepath.Join(dir, "rate")),
	}
	if _, text, ok := strings.Cut(readText(filepath.Join(dir, "phys_state")), ": "); ok {
		p.PhysState = text
	}
	p.Rate = parseRate(p.RateText)
	for _, i := range numbers(filepath.Join(dir, "gids"), maxTable) {
		index := strconv.Itoa(i)
		gid, ok := parseGID(readText(filepath.Join(dir, "gids", index)))
		if !ok || gid.IsZero() {
			continue
		}
		p.GIDs = append(p.GIDs, PortGID{
			Index: i, GID: gid, NetDev: readText(filepath.Join(dir, "gid_attrs/ndevs", index)),
			Type: gidType(filepath.Join(dir, "gid_attrs/types"), index, p.LinkLayer),
		})
	}
	for _, i := range numbers(filepath.Join(dir, "pkeys"), maxTable) {
		for len(p.PKeys) <= i {
			p.PKeys = append(p.PKeys, 0)
		}
		p.PKeys[i] = PKey(hexInt(readText(filepath.Join(dir, "pkeys", strconv.Itoa(i)))))
	}
	return p
}

// gidType reads the protocol of a GID. Where there is but one, old kernels do not
// tell.
func gidType(dir, index string, link LinkLayer) GIDType {
	text := readText(filepath.Join(dir, index))
	if text == "" && link == LinkEthernet {
		if _, err := os.Stat(dir); err != nil {
			return GIDRoCEv1
		}
	}
	switch {
	case text == "RoCE v2":
		return GIDRoCEv2
	case link == LinkEthernet && text == "IB/RoCE v1":
		return GIDRoCEv1
	case link != LinkEthernet && (text == "" || text == "IB/RoCE v1"):
		return GIDInfiniBand
	}
	return GIDUnknown
}
