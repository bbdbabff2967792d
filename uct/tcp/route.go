//go:build linux

package tcp

import (
	"encoding/binary"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs/log"
)

// routeTable is all routes of all tables, by device. As in C UCX
// (src/ucs/sys/netlink.c) the kinds of routes do not matter, and routes with
// several next hops, which name no device of their own, are left out.
type routeTable struct {
	byDevice map[int][]netip.Prefix
}

// readRoutes reads the kernel's routes. Without them nothing but loopback is
// reachable.
func readRoutes() routeTable {
	var t routeTable
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		dump, err := syscall.NetlinkRIB(unix.RTM_GETROUTE, family)
		if err == nil {
			err = t.parse(dump)
		}
		if err != nil {
			log.Diag("cannot read the routing tables", zap.Int("family", family), zap.Error(err))
		}
	}
	return t
}

// parse adds the routes of a netlink dump.
func (t *routeTable) parse(dump []byte) error {
	return eachMessage(dump, unix.RTM_NEWROUTE, unix.SizeofRtMsg, func(m *syscall.NetlinkMessage) {
		v6 := m.Data[0] == unix.AF_INET6
		bits := int(m.Data[1])
		device := -1
		dst, hasDst := netip.IPv4Unspecified(), false
		if v6 {
			dst = netip.IPv6Unspecified()
		}
		eachAttr(m.Data[unix.SizeofRtMsg:], func(typ uint16, v []byte) {
			switch {
			case typ == unix.RTA_OIF && len(v) == 4:
				device = int(int32(binary.NativeEndian.Uint32(v)))
			case typ == unix.RTA_DST:
				if a, ok := netip.AddrFromSlice(v); ok && a.Is6() == v6 {
					dst, hasDst = a, true
				}
			}
		})
		if device < 0 || bits != 0 && !hasDst {
			return
		}
		if p, err := dst.Prefix(bits); err == nil {
			if t.byDevice == nil {
				t.byDevice = make(map[int][]netip.Prefix)
			}
			t.byDevice[device] = append(t.byDevice[device], p)
		}
	})
}

// match returns the length of the longest prefix among a device's routes that
// covers ip, -1 when none does.
func (t *routeTable) match(device int, ip netip.Addr) int {
	longest := -1
	for _, p := range t.byDevice[device] {
		if p.Bits() > longest && p.Contains(ip) {
			longest = p.Bits()
		}
	}
	return longest
}

// best reports whether a device has a route to ip and no other device a closer
// one.
func (t *routeTable) best(device int, ip netip.Addr) bool {
	own := t.match(device, ip)
	if own < 0 {
		return false
	}
	for other := range t.byDevice {
		if t.match(other, ip) > own {
			return false
		}
	}
	return true
}
