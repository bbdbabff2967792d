//go:build linux

package tcp

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
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
