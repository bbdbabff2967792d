//go:build linux

package tcp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/netlink"
	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/internal/topo"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// netdev is a usable network device: it is up and running and has an address of a configured
// family.
type netdev struct {
	name  string
	index int
	arp   uint16 // ARPHRD_*
	mtu   int
	flags uint32 // IFF_*
	kind  string // kind of a virtual device: "bridge", "veth", …
	speed uint32 // Mbit/s, see querySpeed
	addr  netip.Addr
	other netip.Addr   // the first address of the second family, if there is one
	addrs []netip.Addr // all usable addresses, in the kernel's order
}

// resource returns the device as a resource of a transport.
func (d *netdev) resource(transport string) uct.Resource {
	return uct.Resource{
		Transport: transport,
		Device:    d.name,
		Type:      uct.DeviceNetwork,
		SysDevice: -1,
	}
}

// netdevs lists the usable devices by name (uct_tcp_query_devices, ucs_netif_get_addr). It omits
// devices that are down or have only link-local addresses, and bridges unless the options enable
// them.
func netdevs(o mdOptions) ([]netdev, error) {
	links, err := syscall.NetlinkRIB(unix.RTM_GETLINK, unix.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("tcp: listing network devices: %w", statuserr.New(sys.WithRefusal("socket(2) of the family netlink", sys.WithLimit(err)), ucs.ErrIO))
	}
	addrs, err := syscall.NetlinkRIB(unix.RTM_GETADDR, unix.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("tcp: listing network addresses: %w", statuserr.New(sys.WithRefusal("socket(2) of the family netlink", sys.WithLimit(err)), ucs.ErrIO))
	}
	all, err := parseNetdevs(links, addrs)
	if err != nil {
		return nil, err
	}
	devs := all[:0]
	for _, d := range all {
		if d.chooseAddr(o.families) && (o.bridges || d.kind != "bridge") {
			devs = append(devs, d)
		}
	}
	sort.Slice(devs, func(i, j int) bool { return devs[i].name < devs[j].name })
	return devs, nil
}

// parseNetdevs parses two netlink dumps, of links and of addresses.
func parseNetdevs(links, addrs []byte) ([]netdev, error) {
	var devs []netdev
	err := netlink.EachMessage(links, unix.RTM_NEWLINK, unix.SizeofIfInfomsg, func(m *syscall.NetlinkMessage) {
		d := netdev{
			arp:   binary.NativeEndian.Uint16(m.Data[2:]),
			index: int(int32(binary.NativeEndian.Uint32(m.Data[4:]))),
			flags: binary.NativeEndian.Uint32(m.Data[8:]),
			mtu:   unknownMTU,
		}
		netlink.EachAttr(m.Data[unix.SizeofIfInfomsg:], func(typ uint16, v []byte) {
			switch {
			case typ == unix.IFLA_IFNAME:
				d.name = cstring(v)
			case typ == unix.IFLA_MTU && len(v) == 4:
				d.mtu = int(min(binary.NativeEndian.Uint32(v), math.MaxInt32))
			case typ == unix.IFLA_LINKINFO:
				netlink.EachAttr(v, func(typ uint16, v []byte) {
					if typ == unix.IFLA_INFO_KIND {
						d.kind = cstring(v)
					}
				})
			}
		})
		devs = append(devs, d)
	})
	if err != nil {
		return nil, err
	}
	byIndex := make(map[int]*netdev, len(devs))
	for i := range devs {
		byIndex[devs[i].index] = &devs[i]
	}
	err = netlink.EachMessage(addrs, unix.RTM_NEWADDR, unix.SizeofIfAddrmsg, func(m *syscall.NetlinkMessage) {
		if d := byIndex[int(binary.NativeEndian.Uint32(m.Data[4:]))]; d != nil {
			d.addAddr(m)
		}
	})
	return devs, err
}

// addAddr adds the address of a netlink message if it is usable.
func (d *netdev) addAddr(m *syscall.NetlinkMessage) {
	var addr, local netip.Addr
	label := d.name
	netlink.EachAttr(m.Data[unix.SizeofIfAddrmsg:], func(typ uint16, v []byte) {
		switch typ {
		case unix.IFA_ADDRESS:
			addr, _ = netip.AddrFromSlice(v)
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(v)
		case unix.IFA_LABEL:
			label = cstring(v)
		}
	})
	if local.IsValid() {
		addr = local // on a point-to-point link IFA_ADDRESS is the peer's
	}
	// C UCX compares the label with the device's name, so the addresses of
	// aliases are not used.
	if addr.IsValid() && label == d.name && !addr.IsLinkLocalUnicast() {
		d.addrs = append(d.addrs, addr)
	}
}

// chooseAddr sets the device's address to the first one of the first family that has any, and the
// other address to the first one of the other family. It reports whether the device is usable.
func (d *netdev) chooseAddr(families []bool) bool {
	d.addr, d.other = netip.Addr{}, netip.Addr{}
	if !running(d.flags) {
		return false
	}
	for _, v6 := range families {
		k := slices.IndexFunc(d.addrs, func(a netip.Addr) bool { return a.Is6() == v6 })
		switch {
		case k < 0:
		case !d.addr.IsValid():
			d.addr = d.addrs[k]
		case d.addr.Is6() != v6:
			d.other = d.addrs[k]
		}
	}
	return d.addr.IsValid()
}

// running reports whether a device with these flags is up and has a carrier.
func running(flags uint32) bool { return flags&unix.IFF_UP != 0 && flags&unix.IFF_RUNNING != 0 }

// checkRunning queries the kernel, through any socket, and returns ENETDOWN if the device is not
// running now.
func checkRunning(fd int, device string) error {
	req, err := unix.NewIfreq(device)
	if err == nil {
		err = unix.IoctlIfreq(fd, unix.SIOCGIFFLAGS, req)
	}
	if err == nil && !running(uint32(req.Uint16())) {
		err = unix.ENETDOWN
	}
	return err
}

// cstring converts a netlink string, which ends with a zero byte.
func cstring(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}

// deviceList caches the usable devices as of the last call of the method look, usually the one that
// listed the domain's resources. The kernel only lists all devices at once, so opening an iface
// uses the cache, and reads the devices again only if its device has changed.
type deviceList struct {
	read func() ([]netdev, error)

	mu   sync.Mutex
	devs []netdev // the usable devices; guarded by mu
}

// look reads the devices from the kernel, and caches them.
func (l *deviceList) look() ([]netdev, error) {
	devs, err := l.read()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.devs = devs
	return devs, nil
}

// with calls the function use with the cached device of the given name. If there is none, or use
// fails because the device has changed, it reads the devices from the kernel and calls use with the
// device as it is now.
func (l *deviceList) with(name string, use func(netdev) error) error {
	l.mu.Lock()
	devs := l.devs
	l.mu.Unlock()
	if d, ok := deviceOf(devs, name); ok {
		if err := use(d); !changed(err) {
			return err
		}
	}
	devs, err := l.look()
	if err != nil {
		return err
	}
	d, ok := deviceOf(devs, name)
	if !ok {
		return fmt.Errorf("tcp: no usable device %q: %w", name, ucs.ErrNoDevice)
	}
	return use(d)
}

// changed reports whether err says that the device is gone, is not running or does not have
// its address any more.
func changed(err error) bool {
	return errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.ENODEV)
}

func deviceOf(devs []netdev, name string) (netdev, bool) {
	for _, d := range devs {
		if d.name == name {
			return d, true
		}
	}
	return netdev{}, false
}

// fsRoot is the directory that contains sys and proc: / except in tests.
type fsRoot string

var sysfs = fsRoot("/")

func (r fsRoot) path(elem ...string) string {
	return filepath.Join(append([]string{string(r)}, elem...)...)
}

func (r fsRoot) dev(name string) string { return r.path("sys/class/net", name) }

// defaultRoute reports whether a device has an IPv4 route with an empty mask
// (uct_tcp_netif_is_default).
func (r fsRoot) defaultRoute(name string) bool {
	b, err := sys.ReadFile(r.path("proc/net/route"))
	if err != nil {
		return false
	}
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(line)
		if len(f) < 8 || f[0] != name {
			continue
		}
		if mask, err := strconv.ParseUint(f[7], 16, 32); err == nil && mask == 0 {
			return true
		}
	}
	return false
}

// pciDevice returns the sysfs directory of the PCI function below a network device, "" if there is
// none (ucs_netif_get_lowest_device_path, ucs_topo_resolve_sysfs_path). The links of virtual
// devices (VLAN, bond) to lower devices are followed.
func (r fsRoot) pciDevice(name string) string {
	path := r.dev(name)
	for depth := 0; ; depth++ {
		lower, _ := filepath.Glob(filepath.Join(path, "lower_*"))
		if len(lower) == 0 {
			break
		}
		if depth == maxLower-1 {
			return "" // too many links: they may form a cycle
		}
		path = lower[0]
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	// …/0000:03:00.0/net/eth0, or …/0000:03:00.0/<sub-function>/net/eth0
	pci := filepath.Dir(filepath.Dir(real))
	for range 2 {
		if _, err := os.Stat(filepath.Join(pci, "device")); err == nil {
			return pci
		}
		pci = filepath.Dir(pci)
	}
	return ""
}

// pciBandwidth returns the bandwidth of the PCI link below a network device in bytes per second,
// infinity if the bandwidth is not known.
func (r fsRoot) pciBandwidth(name string) float64 {
	dir := r.pciDevice(name)
	if dir == "" {
		return math.Inf(1)
	}
	return topo.PCIBandwidth(dir)
}

// strictReverseFilter reports whether the kernel drops packets that arrive on a device but whose
// source would be reached through another device (rp_filter is 1).
func (r fsRoot) strictReverseFilter(name string) bool {
	b, err := sys.ReadFile(filepath.Join(r.path("proc/sys/net/ipv4/conf"), name, "rp_filter"))
	return err == nil && strings.TrimSpace(string(b)) == "1"
}

// maxLower bounds the devices that pciDevice follows from a virtual device to the lowest device.
const maxLower = 8

// Values that C UCX assumes if the kernel does not report them (uct_tcp_netif_caps).
const (
	unknownSpeed = 100 // Mbit/s
	unknownMTU   = 1500

	speedUnknown = ^uint32(0) // SPEED_UNKNOWN in linux/ethtool.h
)

// querySpeed reads the device's speed from the kernel; unknownSpeed if that fails.
func (d *netdev) querySpeed() {
	d.speed = unknownSpeed
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if speed, err := ethtoolSpeed(fd, d.name); err == nil && speed != 0 && speed != speedUnknown {
		d.speed = speed
	}
}

// cpuOverhead is the estimated CPU time of one message, in seconds (uct_tcp_iface_query).
const cpuOverhead = 50e-6

// perf returns the performance model of a device. UCP publishes these numbers in addresses, and both
// sides choose lanes by them, so they must equal those of C UCX to the bit: the order of operations
// is that of uct_tcp_netif_caps.
func (d *netdev) perf(o *options) uct.Perf {
	speed := float64(d.speed) * 1e6
	network := speed / 8 * float64(d.mtu-40) / float64(d.mtu+linkHeader(d.arp))
	bandwidth := min(network, o.maxBW)
	if bandwidth > topo.SlowestPCI {
		bandwidth = min(bandwidth, sysfs.pciBandwidth(d.name))
	}
	p := uct.Perf{
		Overhead:        cpuOverhead,
		SendOverhead:    cpuOverhead,
		RecvOverhead:    cpuOverhead,
		BandwidthShared: bandwidth,
		Latency:         uct.Linear{C: 576.0/speed + 5.2e-6},
	}
	if o.prefer && !sysfs.defaultRoute(d.name) {
		p.Priority = 1
	}
	return p
}

// linkHeader returns the number of bytes below IP that a packet takes on a link of the given type.
func linkHeader(arp uint16) int {
	switch arp {
	case unix.ARPHRD_ETHER:
		return 7 + 1 + 14 + 4 + 12 // preamble, delimiter, header, checksum, gap
	case unix.ARPHRD_INFINIBAND:
		return 8 + 40 + 12 + 8 + 4 + 20 + 4 + 2 + 2 // IPoIB
	}
	return 0
}
