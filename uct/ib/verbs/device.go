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

// Device describes an RDMA device, as read from sysfs. It is a value and holds no open file. A
// field that the kernel does not report is zero, unless the field's comment says otherwise.
type Device struct {
	Name         string // for example rxe0, mlx5_0
	Uverbs       string // name of the device node, for example uverbs0; "" if none, see AllDevices
	Path         string // path of the device node, for example /dev/infiniband/uverbs0
	Rdev         uint64 // device number of the device node
	ABIVersion   int    // ABI version of the RDMA driver
	Driver       string // driver of the underlying device, such as mlx5_core; "" for rxe, siw
	NodeType     NodeType
	NodeGUID     GUID
	SysImageGUID GUID
	Firmware     string
	BoardID      string
	NodeDesc     string
	Parent       string // rxe only: the underlying network interface
	HCAType      string // for example MT4123; set by mlx5 and some other drivers
	PCI          string // PCI address, for example 0000:81:00.0; "" if it is not a PCI device
	PCIVendor    uint16 // PCI vendor ID, for example 0x15b3; 0 if it is not a PCI device
	PCIDevice    uint16 // PCI device ID
	NUMANode     int    // -1 if unknown
	Ports        []Port
}

// Port is a port of a Device.
type Port struct {
	Num       int
	State     PortState
	PhysState string // for example LinkUp
	LinkLayer LinkLayer
	LID       LID
	SMLID     LID
	Rate      float64 // in Gb/s
	RateText  string  // for example 100 Gb/sec (4X EDR)
	GIDs      []PortGID
	PKeys     []PKey // by table index; 0 is an empty entry. Outdated after EventPKeyChange
}

// PortGID is an entry of a port's GID table that is not empty.
type PortGID struct {
	Index  int
	GID    GID
	Type   GIDType
	NetDev string // name of the network interface, if any
}

const (
	sysfs = "/sys"
	// Limits on what is read from sysfs: the number of devices; the number of ports of a device,
	// which may be hundreds if each virtual function has a port; the number of entries in a GID or
	// P_Key table, whose index has 16 bits.
	maxDevices = 1 << 12
	maxPorts   = 1 << 12
	maxTable   = 1 << 16
	// coreABI is the ABI version of the kernel's uverbs core; all supported kernels have it.
	coreABI = 6
)

// Devices lists the RDMA devices in the order of their nodes (uverbs0, uverbs1, ...);
// ibv_get_device_list. root is the mount point of sysfs; "" means /sys. If the kernel's RDMA
// modules are not loaded, the list is empty.
func Devices(root string) ([]Device, error) {
	return readAll(root, outlines)
}

// readAll returns the devices that the function outline lists, with all their attributes.
func readAll(root string, outline func(root string) ([]Device, error)) ([]Device, error) {
	found, err := outline(root)
	for i := range found {
		found[i].read(root)
	}
	return found, err
}

// OutlineDevices is like Devices, but reads only the attributes that Open needs, the node type and
// the node GUID. Device.Read reads the others, which takes long if the GID table is large, because
// each entry is a file.
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
		if !validName(name) {
			continue // the device is being removed, or this process may not see it
		}
		d := Device{Name: name, Uverbs: uverbs, Path: filepath.Join("/dev/infiniband", uverbs)}
		d.ABIVersion, _ = readInt(filepath.Join(dir, "abi_version"))
		d.Rdev = parseRdev(readText(filepath.Join(dir, "dev")))
		d.identify(filepath.Join(root, "class/infiniband", name))
		found = append(found, d)
	}
	sort.SliceStable(found, func(i, j int) bool { return nodeNumber(found[i].Uverbs) < nodeNumber(found[j].Uverbs) })
	return found, nil
}

// AllDevices returns the list of Devices, followed by the devices that programs cannot open,
// because the kernel's module ib_uverbs is not loaded or does not support them. The field Uverbs of
// these is empty.
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
		if !known[name] && validName(name) {
			found = append(found, Device{Name: name})
		}
	}
	return found, nil
}

// FindDevice returns the device of AllDevices with the given name (mlx5_0) or node name (uverbs0).
// root is as in Devices.
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

// nodeNumber returns the number at the end of a node's name: 2 for uverbs2. Devices are sorted by it.
func nodeNumber(name string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "uverbs"))
	return n
}

// Read reads all attributes of the device from sysfs into d. root is as in Devices.
func (d *Device) Read(root string) { d.read(root) }

// read reads all attributes of the device from its sysfs directory in class/infiniband.
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
	d.Driver = linkTarget(filepath.Join(dir, "device/driver"))
	d.NUMANode = -1
	if n, ok := readInt(filepath.Join(dir, "device/numa_node")); ok && n >= 0 {
		d.NUMANode = n
	}
	if slot := linkTarget(filepath.Join(dir, "device")); isPCI(slot) {
		d.PCI = slot
		d.PCIVendor = hexInt(readText(filepath.Join(dir, "device/vendor")))
		d.PCIDevice = hexInt(readText(filepath.Join(dir, "device/device")))
	}
	d.Ports = nil
	for _, n := range numbers(filepath.Join(dir, "ports"), maxPorts) {
		d.Ports = append(d.Ports, readPort(filepath.Join(dir, "ports", strconv.Itoa(n)), n))
	}
}

// TrafficClass returns the traffic class that the administrator has set for all RoCE traffic of a
// port. The drivers of mlx5 report it in sysfs, as "Global tclass=106" in the directory tc of the
// device. ok is false if none is set. root is as in Devices.
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

// Counter returns the value of a driver-specific counter of a port, from the port's sysfs directory
// hw_counters. ok is false if there is no counter of that name. root is as in Devices.
func (d *Device) Counter(root string, port int, name string) (n uint64, ok bool) {
	if root == "" {
		root = sysfs
	}
	text := readText(filepath.Join(root, "class/infiniband", d.Name, "ports", strconv.Itoa(port), "hw_counters", name))
	n, err := strconv.ParseUint(text, 10, 64)
	return n, err == nil
}

// identify reads the node type and the node GUID of the device from its sysfs directory.
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

// gidType reads the protocol of the GID with an index from the port's directory gid_attrs/types.
// Old kernels do not report the protocol where only one is possible.
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
