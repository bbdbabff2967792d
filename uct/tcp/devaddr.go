//go:build linux

package tcp

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/topo"
	"github.com/ucx-go/ucx/ucs"
)

// Device addresses (uct_tcp_device_addr_t, uct_iface_local_addr_ns_t): one byte of flags, one
// byte of address family, then the IP address. For loopback devices, the identifiers of the
// machine and the network namespace stand in place of the IP address.
const (
	devFlagLoopback = 1 << 0 // UCT_TCP_DEVICE_ADDR_FLAG_LOOPBACK

	devHdrLen = 2

	// The loopback form ends with a namespace field of 8 bytes in release 1.13 and of 4 bytes
	// in release 1.22. This library sends 8 bytes with a zero upper half, which both releases
	// read. The bare form has no namespace field.
	devLoopbackLen     = devHdrLen + 16
	devLoopbackLen122  = devHdrLen + 12
	devLoopbackLenBare = devHdrLen + 8

	// systemHasNamespace in the system id says that the namespace field is valid
	// (UCS_SYS_NS... in src/uct/base/uct_iface.c).
	systemHasNamespace = 1 << 63

	ifaceAddrLen = 2  // uct_tcp_iface_addr_t
	epAddrLen    = 10 // uct_tcp_ep_addr_t
)

// deviceAddr is a parsed device address.
type deviceAddr struct {
	v6       bool
	loopback bool
	ip       netip.Addr // the loopback address stands in for a loopback device
	system   uint64     // loopback only
	netns    uint32     // loopback only; low half of the namespace's inode
}

// localDeviceAddr returns the device address of this machine's device with address ip.
func localDeviceAddr(ip netip.Addr) deviceAddr {
	d := deviceAddr{v6: ip.Is6(), ip: ip, loopback: ip.IsLoopback()}
	if d.loopback {
		d.system = topo.SystemID() &^ systemHasNamespace
		if inode, initial := topo.Namespace(topo.NamespaceNet); !initial {
			d.system |= systemHasNamespace
			d.netns = uint32(inode)
		}
	}
	return d
}

// pack returns the address in its wire form.
func (d *deviceAddr) pack() []byte {
	family := byte(unix.AF_INET)
	if d.v6 {
		family = unix.AF_INET6
	}
	if !d.loopback {
		return append([]byte{0, family}, d.ip.AsSlice()...)
	}
	b := append(make([]byte, 0, devLoopbackLen), devFlagLoopback, family)
	b = le.AppendUint64(b, d.system)
	return le.AppendUint64(b, uint64(d.netns))
}

// parseDeviceAddr reads a peer's device address. It ignores unknown flags, as C UCX does.
func parseDeviceAddr(b []byte) (deviceAddr, error) { return parseDevice(b, false) }

// parseDevice is parseDeviceAddr, except that it accepts a link-local IPv6 address if linkLocal
// is set.
func parseDevice(b []byte, linkLocal bool) (deviceAddr, error) {
	var d deviceAddr
	if len(b) < devHdrLen {
		return d, fmt.Errorf("tcp: device address of %d bytes: %w", len(b), ucs.ErrInvalidAddr)
	}
	switch b[1] {
	case unix.AF_INET:
	case unix.AF_INET6:
		d.v6 = true
	default:
		return d, fmt.Errorf("tcp: device address of family %d: %w", b[1], ucs.ErrInvalidAddr)
	}
	rest := b[devHdrLen:]
	if b[0]&devFlagLoopback == 0 {
		ip, ok := netip.AddrFromSlice(rest)
		if !ok || ip.Is6() != d.v6 {
			return d, fmt.Errorf("tcp: device address of family %d and %d bytes: %w", b[1], len(b), ucs.ErrInvalidAddr)
		}
		if !isDevice(ip) && !(linkLocal && ip.Is6() && ip.IsLinkLocalUnicast()) {
			return d, fmt.Errorf("tcp: %v is not the address of a device: %w", ip, ucs.ErrInvalidAddr)
		}
		d.ip = ip
		return d, nil
	}
	d.loopback = true
	d.ip = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if d.v6 {
		d.ip = netip.IPv6Loopback()
	}
	switch len(b) {
	case devLoopbackLen, devLoopbackLen122:
		d.netns = le.Uint32(rest[8:])
	case devLoopbackLenBare:
	default:
		return d, fmt.Errorf("tcp: loopback device address of %d bytes: %w", len(b), ucs.ErrInvalidAddr)
	}
	d.system = le.Uint64(rest)
	return d, nil
}

// isDevice reports whether ip can be the address of a peer's device. The kernel takes the
// unspecified address for this machine, and an IPv4-mapped IPv6 address for another address
// than the one that was checked. A link-local IPv6 address means nothing without its device,
// and C UCX publishes none. Multicast addresses belong to no device.
func isDevice(ip netip.Addr) bool {
	return !ip.IsUnspecified() && !ip.IsMulticast() && !ip.Is4In6() && (ip.Is4() || !ip.IsLinkLocalUnicast())
}

// sameNode reports whether two loopback devices are the same device: they have the same
// machine and the same network namespace.
func (d *deviceAddr) sameNode(o *deviceAddr) bool {
	return d.system == o.system && (d.system&systemHasNamespace == 0 || d.netns == o.netns)
}

// parsePort reads an iface address, which is the port of the listener.
func parsePort(b []byte) (uint16, error) {
	if len(b) != ifaceAddrLen {
		return 0, fmt.Errorf("tcp: iface address of %d bytes: %w", len(b), ucs.ErrInvalidAddr)
	}
	return binary.BigEndian.Uint16(b), nil
}

// parsePeer reads the device address and the iface address of a peer's listener.
func parsePeer(dev, iface []byte) (deviceAddr, sockaddr, error) {
	d, err := parseDeviceAddr(dev)
	return d.listener(iface, err)
}

// parseListener is parsePeer for endpoints that are connected by key; it accepts a link-local
// IPv6 address. A connection manager may have reached the peer by an address of the link that
// the peer shares with this device.
func parseListener(dev, iface []byte) (deviceAddr, sockaddr, error) {
	d, err := parseDevice(dev, true)
	return d.listener(iface, err)
}

// listener adds the port of a listener to the address of its device. It returns err if err is
// not nil.
func (d deviceAddr) listener(iface []byte, err error) (deviceAddr, sockaddr, error) {
	if err != nil {
		return d, sockaddr{}, err
	}
	port, err := parsePort(iface)
	if err != nil {
		return d, sockaddr{}, err
	}
	return d, makeSockaddr(d.ip, port), nil
}
