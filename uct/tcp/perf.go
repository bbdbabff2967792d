//go:build linux

package tcp

import (
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/topo"
	"github.com/ucx-go/ucx/uct"
)

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
