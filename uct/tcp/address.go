//go:build linux

package tcp

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sockdiag"
	"github.com/ucx-go/ucx/internal/topo"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/tcp/internal/inet"
)

// Lengths of a sockaddr on the wire: those of Linux's struct sockaddr_in and sockaddr_in6.
const (
	sockaddrLen4 = 16
	sockaddrLen6 = 28
)

// sockaddr is a listener's address, which identifies a peer's iface. It is comparable. An IPv4
// address is in the first four bytes of ip.
type sockaddr struct {
	ip   [16]byte
	port uint16
	v6   bool
}

// makeSockaddr converts a netip address.
func makeSockaddr(ip netip.Addr, port uint16) sockaddr {
	a := sockaddr{port: port, v6: ip.Is6()}
	copy(a.ip[:], ip.AsSlice())
	return a
}

// bytes returns the IP address in network order.
func (a *sockaddr) bytes() []byte {
	if a.v6 {
		return a.ip[:]
	}
	return a.ip[:4]
}

// family returns the address family, AF_INET or AF_INET6.
func (a *sockaddr) family() int {
	if a.v6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// familyName returns the name of a family for error messages.
func familyName(v6 bool) string {
	if v6 {
		return "IPv6"
	}
	return "IPv4"
}

// compare orders addresses as ucs_sockaddr_cmp does: by family, by IP in network
// order, by port.
func (a *sockaddr) compare(b *sockaddr) int {
	if a.v6 != b.v6 {
		return a.family() - b.family()
	}
	if c := bytes.Compare(a.bytes(), b.bytes()); c != 0 {
		return c
	}
	return int(a.port) - int(b.port)
}

// addrPort converts to a netip address.
func (a sockaddr) addrPort() netip.AddrPort {
	ip, _ := netip.AddrFromSlice(a.bytes())
	return netip.AddrPortFrom(ip, a.port)
}

// String prints "ip:port".
func (a sockaddr) String() string { return a.addrPort().String() }

// withPort returns a with another port.
func (a sockaddr) withPort(port uint16) sockaddr {
	a.port = port
	return a
}

// zoned returns an address on the interface's link: an IPv6 link-local address gets the device's
// index as its zone.
func (i *iface) zoned(ip netip.Addr) netip.Addr {
	if ip.Is6() && ip.IsLinkLocalUnicast() {
		return inet.Zoned(ip, uint32(i.index))
	}
	return ip
}

// unix converts to the socket address that bind and connect need, on the interface's link.
func (i *iface) unix(a *sockaddr) unix.Sockaddr {
	if a.v6 {
		sa := &unix.SockaddrInet6{Port: int(a.port), Addr: a.ip}
		if a.addrPort().Addr().IsLinkLocalUnicast() {
			sa.ZoneId = uint32(i.index)
		}
		return sa
	}
	return &unix.SockaddrInet4{Port: int(a.port), Addr: [4]byte(a.ip[:4])}
}

// wireLen returns the number of bytes that appendWire appends.
func (a *sockaddr) wireLen() int {
	if a.v6 {
		return sockaddrLen6
	}
	return sockaddrLen4
}

// appendWire appends the sockaddr in the format of a connection request. The receiver compares
// raw bytes, so unused fields are zero.
func (a *sockaddr) appendWire(b []byte) []byte {
	b = le.AppendUint16(b, uint16(a.family()))
	b = binary.BigEndian.AppendUint16(b, a.port)
	if !a.v6 {
		b = append(b, a.ip[:4]...)
		return append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	}
	b = append(b, 0, 0, 0, 0) // flow info
	b = append(b, a.ip[:]...)
	return append(b, 0, 0, 0, 0) // scope id
}

// parseSockaddr parses a sockaddr that fills b. Unused fields are ignored.
func parseSockaddr(b []byte) (sockaddr, error) {
	var a sockaddr
	if len(b) < 2 {
		return a, fmt.Errorf("tcp: socket address of %d bytes: %w", len(b), ucs.ErrInvalidAddr)
	}
	switch family := le.Uint16(b); {
	case family == unix.AF_INET && len(b) == sockaddrLen4:
		copy(a.ip[:], b[4:8])
	case family == unix.AF_INET6 && len(b) == sockaddrLen6:
		a.v6 = true
		copy(a.ip[:], b[8:24])
	default:
		return a, fmt.Errorf("tcp: socket address of family %d and %d bytes: %w", family, len(b), ucs.ErrInvalidAddr)
	}
	a.port = binary.BigEndian.Uint16(b[2:])
	return a, nil
}

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
	ip       netip.Addr // 127.0.0.1 or ::1 for a loopback device
	system   uint64     // identifier of the machine; loopback only
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
			return d, fmt.Errorf("tcp: %v cannot be the address of a device: %w", ip, ucs.ErrInvalidAddr)
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

// isDevice reports whether ip can be the address of a peer's device. The kernel connects the
// unspecified address to this machine, and an IPv4-mapped IPv6 address to an IPv4 address that was
// not checked. A link-local IPv6 address means nothing without its device, and C UCX publishes
// none. Multicast addresses belong to no device.
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

// PeerAddr implements uct.NetworkIface.
func (i *iface) PeerAddr(p uct.ReachableParams) (addr netip.AddrPort, here bool, err error) {
	_, sa, err := parseListener(p.DeviceAddr, p.IfaceAddr)
	if err != nil {
		return netip.AddrPort{}, false, err
	}
	ip := i.zoned(sa.addrPort().Addr())
	addr = netip.AddrPortFrom(ip, sa.port)
	if ip.IsLoopback() {
		return addr, true, nil
	}
	here, sure := i.svc.ownAddr(ip)
	if !sure {
		return netip.AddrPort{}, false, fmt.Errorf("tcp: cannot tell whether %v is an address of this machine: %w", ip, ucs.ErrNoResource)
	}
	return addr, here, nil
}

// MayListen implements uct.Connection.
func (c *conn) MayListen(at netip.AddrPort) bool {
	if at.Port() == 0 {
		return false
	}
	peer, err := c.peerSocket()
	unmapped := errors.Is(err, sockdiag.ErrForeign)
	switch {
	case sockdiag.Transient(err):
		return false
	case err != nil && !unmapped:
		return true
	}
	l, err := c.listenerOf(at)
	switch {
	case err == nil:
		return !unmapped && l.UID == peer.UID
	case errors.Is(err, sockdiag.ErrForeign):
		return unmapped // both users have no number in this user namespace
	}
	return !errors.Is(err, sockdiag.ErrNotFound) && !sockdiag.Transient(err)
}
