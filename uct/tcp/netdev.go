//go:build linux

package tcp

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"sort"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/netlink"
	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/internal/sys"
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
