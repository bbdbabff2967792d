//go:build linux

package rdmacm

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// Sizes of struct sockaddr_in and sockaddr_in6; netinet/in.h.
const (
	sizeofIn  = 16
	sizeofIn6 = 28
)

// putSockaddr writes an address as struct sockaddr_in or sockaddr_in6 and returns
// its size. An invalid address has size 0.
func putSockaddr(b *[128]byte, a netip.AddrPort) (size uint16, err error) {
	ip := a.Addr().Unmap()
	switch {
	case !ip.IsValid():
		return 0, nil
	case ip.Is4():
		binary.NativeEndian.PutUint16(b[0:], unix.AF_INET)
		binary.BigEndian.PutUint16(b[2:], a.Port())
		copy(b[4:8], ip.AsSlice())
		return sizeofIn, nil
	}
	binary.NativeEndian.PutUint16(b[0:], unix.AF_INET6)
	binary.BigEndian.PutUint16(b[2:], a.Port())
	copy(b[8:24], ip.AsSlice())
	scope, err := zoneIndex(ip.Zone())
	binary.NativeEndian.PutUint32(b[24:], scope)
	return sizeofIn6, err
}

// getSockaddr reads struct sockaddr_in or sockaddr_in6. It returns the invalid address for anything
// else.
func getSockaddr(b []byte) netip.AddrPort {
	if len(b) < sizeofIn {
		return netip.AddrPort{}
	}
	port := binary.BigEndian.Uint16(b[2:])
	switch family := binary.NativeEndian.Uint16(b); {
	case family == unix.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port)
	case family == unix.AF_INET6 && len(b) >= sizeofIn6:
		ip := netip.AddrFrom16([16]byte(b[8:24]))
		if scope := binary.NativeEndian.Uint32(b[24:]); scope != 0 && !ip.Is4In6() {
			ip = ip.WithZone(zoneName(scope))
		}
		return netip.AddrPortFrom(ip, port)
	}
	return netip.AddrPort{}
}

// zoneIndex returns the index of a network interface, given by name or number.
func zoneIndex(zone string) (uint32, error) {
	if zone == "" {
		return 0, nil
	}
	if i, err := net.InterfaceByName(zone); err == nil {
		return uint32(i.Index), nil
	}
	n, err := strconv.ParseUint(zone, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("rdmacm: no network interface %q: %w", zone, ucs.ErrInvalidAddr)
	}
	return uint32(n), nil
}

func zoneName(index uint32) string {
	if i, err := net.InterfaceByIndex(int(index)); err == nil {
		return i.Name
	}
	return strconv.FormatUint(uint64(index), 10)
}
