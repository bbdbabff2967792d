package tcp

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct"
)

// What C UCX assumes where the kernel does not tell (uct_tcp_netif_caps).
const (
	unknownSpeed = 100 // Mbit/s
	unknownMTU   = 1500

	speedUnknown = ^uint32(0) // SPEED_UNKNOWN in linux/ethtool.h
)

// querySpeed asks for the device's speed.
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

// cpuOverhead is the estimated cost of one message, in seconds
// (uct_tcp_iface_query).
const cpuOverhead = 50e-6

// perf is the performance model of a device. UCP publishes these numbers in
// addresses and both sides choose lanes by them, so they must be C UCX's to the
// bit: the order of operations is that of uct_tcp_netif_caps.
func (d *netdev) perf(o *options) uct.Perf {
	speed := float64(d.speed) * 1e6
	network := speed / 8 * float64(d.mtu-40) / float64(d.mtu+linkHeader(d.arp))
	p := uct.Perf{
		Overhead:        cpuOverhead,
		SendOverhead:    cpuOverhead,
		RecvOverhead:    cpuOverhead,
		BandwidthShared: min(network, sysfs.pciBandwidth(d.name), o.maxBW),
		Latency:         uct.Linear{C: 576.0/speed + 5.2e-6},
	}
	if o.prefer && !sysfs.defaultRoute(d.name) {
		p.Priority = 1
	}
	return p
}

// linkHeader is the number of bytes below IP that a packet costs.
func linkHeader(arp uint16) int {
	switch arp {
	case unix.ARPHRD_ETHER:
		return 7 + 1 + 14 + 4 + 12 // preamble, delimiter, header, checksum, gap
	case unix.ARPHRD_INFINIBAND:
		return 8 + 40 + 12 + 8 + 4 + 20 + 4 + 2 + 2 // IPoIB
	}
	return 0
}

// fsRoot is where /sys and /proc are; tests have their own.
type fsRoot string

var sysfs = fsRoot("/")

func (r fsRoot) path(elem ...string) string {
	return filepath.Join(append([]string{string(r)}, elem...)...)
}

func (r fsRoot) dev(name string) string { return r.path("sys/class/net", name) }

// defaultRoute reports whether a device has an IPv4 route with an empty mask
// (uct_tcp_netif_is_default).
func (r fsRoot) defaultRoute(name string) bool {
	b, err := os.ReadFile(r.path("proc/net/route"))
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

// maxLower bounds the search below virtual devices.
const maxLower = 8

// pciDevice returns the sysfs directory of the PCI function a network device
// stands on, "" when there is none (ucs_netif_get_lowest_device_path,
// ucs_topo_resolve_sysfs_path). Virtual devices (VLAN, bond) are followed down.
func (r fsRoot) pciDevice(name string) string {
	path := r.dev(name)
	for depth := 0; ; depth++ {
		lower, _ := filepath.Glob(filepath.Join(path, "lower_*"))
		if len(lower) == 0 {
			break
		}
		if depth == maxLower-1 {
			return "" // links that lead in a circle
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

// pciGeneration describes links of one PCI Express generation
// (ucs_topo_pci_info in src/ucs/sys/topo/base/topo.c).
type pciGeneration struct {
	gts                float64 // transfers per second and lane, 10^9
	overhead           float64 // bytes per packet
	encoding, decoding float64
}

var pciGenerations = [...]pciGeneration{
	{2.5, 24, 8, 10},
	{5, 24, 8, 10},
	{8, 26, 128, 130},
	{16, 26, 128, 130},
	{32, 26, 128, 130},
}

// pciBandwidth returns the bandwidth of the PCI link below a network device in
// bytes per second, infinite when it is not known (ucs_topo_get_pci_bw).
func (r fsRoot) pciBandwidth(name string) float64 {
	unknown := math.Inf(1)
	dir := r.pciDevice(name)
	if dir == "" {
		return unknown
	}
	widthText, err1 := os.ReadFile(filepath.Join(dir, "current_link_width"))
	speedText, err2 := os.ReadFile(filepath.Join(dir, "current_link_speed"))
	if err1 != nil || err2 != nil {
		return unknown
	}
	width, err1 := strconv.ParseUint(strings.TrimSpace(string(widthText)), 10, 32)
	f := strings.Fields(string(speedText))
	if err1 != nil || len(f) < 2 || !strings.EqualFold(f[1], "GT/s") {
		return unknown
	}
	gts, err := strconv.ParseFloat(f[0], 64)
	if err != nil {
		return unknown
	}
	for _, g := range pciGenerations {
		if gts/g.gts > 1.01 {
			continue
		}
		const payload, ratio, control = 256, 4, 16
		use := float64(payload*ratio) / ((payload+g.overhead)*ratio + control)
		return g.gts * 1e9 / 8 * float64(width) * (g.encoding / g.decoding) * use
	}
	return unknown
}
