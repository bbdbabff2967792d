package tcp

import (
	"fmt"
	"math"
	"net/netip"
	"sort"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// netdev is a network device that can be used: it is up and running and has an
// address of a wanted family.
type netdev struct {
	name  string
	index int
	arp   uint16 // ARPHRD_*
	mtu   int
	flags uint32 // IFF_*
	addr  netip.Addr
	addrs []netip.Addr // all that can be used, in the kernel's order
}

// resource is how the device is listed.
func (d *netdev) resource() uct.Resource {
	return uct.Resource{
		Transport: componentName,
		Device:    d.name,
		Type:      uct.DeviceNetwork,
		SysDevice: -1,
	}
}

// netdevs lists the usable devices by name (uct_tcp_query_devices,
// ucs_netif_get_addr): not those that are down, have only link-local addresses,
// or are bridges unless bridges are wanted.
func netdevs(o mdOptions) ([]netdev, error) {
	links, err := syscall.NetlinkRIB(unix.RTM_GETLINK, unix.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("tcp: listing network devices: %w: %w", err, ucs.ErrIO)
	}
	addrs, err := syscall.NetlinkRIB(unix.RTM_GETADDR, unix.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("tcp: listing network addresses: %w: %w", err, ucs.ErrIO)
	}
	all, err := parseNetdevs(links, addrs)
	if err != nil {
		return nil, err
	}
	devs := all[:0]
	for _, d := range all {
		if d.chooseAddr(o.families) && (o.bridges || !sysfs.isBridge(d.name)) {
			devs = append(devs, d)
		}
	}
	sort.Slice(devs, func(i, j int) bool { return devs[i].name < devs[j].name })
	return devs, nil
}

// parseNetdevs reads two netlink dumps, of links and of addresses.
func parseNetdevs(links, addrs []byte) ([]netdev, error) {
	var devs []netdev
	err := eachMessage(links, unix.RTM_NEWLINK, func(m *syscall.NetlinkMessage) error {
		if len(m.Data) < unix.SizeofIfInfomsg {
			return nil
		}
		d := netdev{
			arp:   le.Uint16(m.Data[2:]),
			index: int(int32(le.Uint32(m.Data[4:]))),
			flags: le.Uint32(m.Data[8:]),
			mtu:   unknownMTU,
		}
		return eachAttr(m, func(typ uint16, v []byte) {
			switch {
			case typ == unix.IFLA_IFNAME:
				d.name = cstring(v)
			case typ == unix.IFLA_MTU && len(v) == 4:
				d.mtu = int(min(le.Uint32(v), math.MaxInt32))
			}
		}, func() { devs = append(devs, d) })
	})
	if err != nil {
		return nil, err
	}
	byIndex := make(map[int]*netdev, len(devs))
	for i := range devs {
		byIndex[devs[i].index] = &devs[i]
	}
	err = eachMessage(addrs, unix.RTM_NEWADDR, func(m *syscall.NetlinkMessage) error {
		if len(m.Data) < unix.SizeofIfAddrmsg {
			return nil
		}
		d := byIndex[int(le.Uint32(m.Data[4:]))]
		if d == nil {
			return nil
		}
		var addr, local netip.Addr
		label := d.name
		return eachAttr(m, func(typ uint16, v []byte) {
			switch typ {
			case unix.IFA_ADDRESS:
				addr, _ = netip.AddrFromSlice(v)
			case unix.IFA_LOCAL:
				local, _ = netip.AddrFromSlice(v)
			case unix.IFA_LABEL:
				label = cstring(v)
			}
		}, func() {
			if local.IsValid() {
				addr = local
			}
			// C UCX compares the label with the device's name, so the addresses
			// of aliases are not used.
			if addr.IsValid() && label == d.name && !addr.IsLinkLocalUnicast() {
				d.addrs = append(d.addrs, addr)
			}
		})
	})
	return devs, err
}

// chooseAddr sets the device's address: the first one of the first family that
// has any. It reports whether the device can be used.
func (d *netdev) chooseAddr(families []bool) bool {
	if d.flags&unix.IFF_UP == 0 || d.flags&unix.IFF_RUNNING == 0 {
		return false
	}
	for _, v6 := range families {
		for _, a := range d.addrs {
			if a.Is6() == v6 {
				d.addr = a
				return true
			}
		}
	}
	return false
}

// eachMessage calls fn for the messages of one type in a netlink dump.
func eachMessage(dump []byte, typ uint16, fn func(*syscall.NetlinkMessage) error) error {
	msgs, err := syscall.ParseNetlinkMessage(dump)
	if err != nil {
		return fmt.Errorf("tcp: netlink: %w: %w", err, ucs.ErrIO)
	}
	for i := range msgs {
		if msgs[i].Header.Type == typ {
			if err := fn(&msgs[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// eachAttr calls attr for the attributes of a message and then done.
func eachAttr(m *syscall.NetlinkMessage, attr func(typ uint16, value []byte), done func()) error {
	attrs, err := syscall.ParseNetlinkRouteAttr(m)
	if err != nil {
		return fmt.Errorf("tcp: netlink: %w: %w", err, ucs.ErrIO)
	}
	for _, a := range attrs {
		attr(a.Attr.Type, a.Value)
	}
	done()
	return nil
}

// cstring is a netlink string, which ends with a zero byte.
func cstring(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
