package verbs

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// Device is an RDMA device as sysfs shows it. It is a value: reading it opens
// nothing. What the kernel does not tell is zero, or as the field says.
type Device struct {
	Name         string // rxe0, mlx5_0
	Uverbs       string // uverbs0
	Path         string // /dev/infiniband/uverbs0
	Rdev         uint64 // the number of that node
	ABIVersion   int    // of the driver
	Driver       string // the kernel's driver, if sysfs tells: mlx5_core. rxe and siw do not
	NodeType     NodeType
	NodeGUID     GUID
	SysImageGUID GUID
	Firmware     string
	BoardID      string
	NodeDesc     string
	Parent       string // the network interface below rxe
	NUMANode     int    // -1 if there is none
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
	PKeys     []PKey // with their index; 0 is empty
}

// PortGID is an entry of a port's GID table that is not empty.
type PortGID struct {
	Index  int
	GID    GID
	Type   GIDType
	NetDev string // the network interface, if there is one
}

const (
	sysfs = "/sys"
	// maxTable bounds the tables of a port, maxPorts its number: devices have a few
	// hundred entries and, of a switch, some tens of ports.
	maxTable = 1 << 16
	maxPorts = 255
	// coreABI is the only version of the core that kernels of interest have.
	coreABI = 6
)

// Devices lists the RDMA devices in their order; ibv_get_device_list. root is
// where sysfs is, /sys if empty. Without the kernel's modules there are none.
func Devices(root string) ([]Device, error) {
	if root == "" {
		root = sysfs
	}
	class := filepath.Join(root, "class/infiniband_verbs")
	entries, err := os.ReadDir(class)
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("verbs: %w: %w", err, ucs.ErrIO)
	}
	if v, ok := readInt(filepath.Join(class, "abi_version")); ok && v != coreABI {
		return nil, fmt.Errorf("verbs: the kernel's interface has version %d, not %d: %w", v, coreABI, ucs.ErrUnsupported)
	}
	var list []Device
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "uverbs") {
			continue
		}
		dir := filepath.Join(class, e.Name())
		name := readText(filepath.Join(dir, "ibdev"))
		if name == "" || strings.Contains(name, "/") {
			continue // going, or not ours to see
		}
		d := readDevice(filepath.Join(root, "class/infiniband", name))
		d.Name, d.Uverbs, d.Path = name, e.Name(), filepath.Join("/dev/infiniband", e.Name())
		d.ABIVersion, _ = readInt(filepath.Join(dir, "abi_version"))
		d.Rdev = parseRdev(readText(filepath.Join(dir, "dev")))
		list = append(list, d)
	}
	sort.Slice(list, func(i, j int) bool { return order(list[i].Uverbs) < order(list[j].Uverbs) })
	return list, nil
}

// FindDevice returns the device with a name, of the device or its node.
func FindDevice(root, name string) (*Device, error) {
	list, err := Devices(root)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range list {
		if list[i].Name == name || list[i].Uverbs == name {
			return &list[i], nil
		}
		names = append(names, list[i].Name)
	}
	return nil, fmt.Errorf("verbs: no device %s, there are [%s]: %w", name, strings.Join(names, " "), ucs.ErrNoDevice)
}

// order is the number at the end of a name.
func order(name string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(name, "uverbs"))
	return n
}

// readDevice reads a folder of class/infiniband.
func readDevice(dir string) Device {
	d := Device{
		NodeType:     NodeType(leadingInt(readText(filepath.Join(dir, "node_type")))),
		NodeGUID:     parseGUID(readText(filepath.Join(dir, "node_guid"))),
		SysImageGUID: parseGUID(readText(filepath.Join(dir, "sys_image_guid"))),
		Firmware:     readText(filepath.Join(dir, "fw_ver")),
		BoardID:      readText(filepath.Join(dir, "board_id")),
		NodeDesc:     readText(filepath.Join(dir, "node_desc")),
		Parent:       readText(filepath.Join(dir, "parent")),
		NUMANode:     -1,
	}
	if n, ok := readInt(filepath.Join(dir, "device/numa_node")); ok {
		d.NUMANode = n
	}
	if link, err := os.Readlink(filepath.Join(dir, "device/driver")); err == nil {
		d.Driver = filepath.Base(link)
	}
	for _, n := range numbers(filepath.Join(dir, "ports"), maxPorts) {
		d.Ports = append(d.Ports, readPort(filepath.Join(dir, "ports", strconv.Itoa(n)), n))
	}
	return d
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
	if f := strings.Fields(p.RateText); len(f) > 0 {
		p.Rate, _ = strconv.ParseFloat(f[0], 64)
	}
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

// gidType reads the protocol of a GID. Old kernels do not tell: they know one.
func gidType(dir, index string, link LinkLayer) GIDType {
	if _, err := os.Stat(dir); err != nil {
		if link == LinkEthernet {
			return GIDRoCEv1
		}
		return GIDInfiniBand
	}
	switch readText(filepath.Join(dir, index)) {
	case "IB/RoCE v1":
		if link == LinkEthernet {
			return GIDRoCEv1
		}
		return GIDInfiniBand
	case "RoCE v2":
		return GIDRoCEv2
	}
	return GIDUnknown
}

// numbers lists the numbers below limit that a folder has entries for.
func numbers(dir string, limit int) []int {
	entries, _ := os.ReadDir(dir)
	var list []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && n >= 0 && n < limit && strconv.Itoa(n) == e.Name() {
			list = append(list, n)
		}
	}
	sort.Ints(list)
	return list
}

// readText is the text of a file, "" if it cannot be read.
func readText(name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

func readInt(name string) (int, bool) {
	n, err := strconv.Atoi(readText(name))
	return n, err == nil
}

// leadingInt is the number of a text like "4: ACTIVE", 0 if there is none.
func leadingInt(s string) uint8 {
	num, _, _ := strings.Cut(s, ":")
	n, err := strconv.ParseUint(num, 10, 8)
	if err != nil {
		return 0
	}
	return uint8(n)
}

// hexInt is the number of a text like "0xffff", 0 if it is not one.
func hexInt(s string) uint16 {
	n, err := strconv.ParseUint(strings.TrimPrefix(s, "0x"), 16, 16)
	if err != nil {
		return 0
	}
	return uint16(n)
}

// parseGUID reads 0000:0000:0000:0000, 0 if it is not that.
func parseGUID(s string) GUID {
	groups := strings.Split(s, ":")
	if len(groups) != 4 {
		return 0
	}
	var g GUID
	for _, t := range groups {
		n, err := strconv.ParseUint(t, 16, 16)
		if err != nil || len(t) != 4 {
			return 0
		}
		g = g<<16 | GUID(n)
	}
	return g
}

// parseGID reads a GID of 8 groups.
func parseGID(s string) (g GID, ok bool) {
	groups := strings.Split(s, ":")
	if len(groups) != 8 {
		return g, false
	}
	for i, t := range groups {
		n, err := strconv.ParseUint(t, 16, 16)
		if err != nil || len(t) != 4 {
			return GID{}, false
		}
		g[2*i], g[2*i+1] = byte(n>>8), byte(n)
	}
	return g, true
}

// parseRdev reads major:minor.
func parseRdev(s string) uint64 {
	major, minor, _ := strings.Cut(s, ":")
	a, err1 := strconv.ParseUint(major, 10, 32)
	b, err2 := strconv.ParseUint(minor, 10, 32)
	if err1 != nil || err2 != nil {
		return 0
	}
	return unix.Mkdev(uint32(a), uint32(b))
}

func parseLinkLayer(s string) LinkLayer {
	for l := LinkUnspecified; l <= LinkEthernet; l++ {
		if strings.EqualFold(s, l.String()) {
			return l
		}
	}
	return LinkUnspecified
}
