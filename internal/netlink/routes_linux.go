package netlink

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// Routes holds the routes of all tables, by device. As in C UCX (src/ucs/sys/netlink.c), the types
// of routes do not matter, and multipath routes, which have no device attribute, are left out.
type Routes struct {
	byDevice map[int][]netip.Prefix
	local    []netip.Prefix // prefixes of this machine's addresses
}

// ReadRoutes reads the kernel's routes. On an error the routes that could not be read are missing.
func ReadRoutes() (Routes, error) {
	var t Routes
	var all error
	for _, family := range []int{unix.AF_INET, unix.AF_INET6} {
		dump, err := syscall.NetlinkRIB(unix.RTM_GETROUTE, family)
		if err == nil {
			err = t.parse(dump)
		}
		if err != nil {
			all = errors.Join(all, fmt.Errorf("netlink: routes of address family %d: %w: %w", family, err, ucs.ErrIO))
		}
	}
	return t, all
}

// parse adds the routes of a netlink dump.
func (t *Routes) parse(dump []byte) error {
	return EachMessage(dump, unix.RTM_NEWROUTE, unix.SizeofRtMsg, func(m *syscall.NetlinkMessage) {
		v6 := m.Data[0] == unix.AF_INET6
		bits := int(m.Data[1])
		device := -1
		dst, hasDst := netip.IPv4Unspecified(), false
		if v6 {
			dst = netip.IPv6Unspecified()
		}
		EachAttr(m.Data[unix.SizeofRtMsg:], func(typ uint16, v []byte) {
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
			t.Add(device, p)
			if m.Data[7] == unix.RTN_LOCAL {
				t.local = append(t.local, p)
			}
		}
	})
}

// Add adds a route through a device, given by its index.
func (t *Routes) Add(device int, to netip.Prefix) {
	if t.byDevice == nil {
		t.byDevice = make(map[int][]netip.Prefix)
	}
	t.byDevice[device] = append(t.byDevice[device], to)
}

// Local reports whether ip is an address of this machine.
func (t *Routes) Local(ip netip.Addr) bool {
	return slices.ContainsFunc(t.local, func(p netip.Prefix) bool { return p.Contains(ip) })
}

// Match returns the length of the longest prefix among a device's routes that contains ip, or -1 if
// none does.
func (t *Routes) Match(device int, ip netip.Addr) int {
	longest := -1
	for _, p := range t.byDevice[device] {
		if p.Bits() > longest && p.Contains(ip) {
			longest = p.Bits()
		}
	}
	return longest
}

// Best reports whether a device has a route to ip and no other device has a more specific one.
func (t *Routes) Best(device int, ip netip.Addr) bool {
	own := t.Match(device, ip)
	if own < 0 {
		return false
	}
	for other := range t.byDevice {
		if t.Match(other, ip) > own {
			return false
		}
	}
	return true
}
