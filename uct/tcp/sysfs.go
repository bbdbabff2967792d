//go:build linux

package tcp

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/internal/topo"
)

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

// maxLower is the largest number of devices in the search for the lowest device.
const maxLower = 8
