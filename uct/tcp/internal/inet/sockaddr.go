//go:build linux

// Package inet converts socket addresses between package netip and the types of packages unix
// and syscall.
package inet

import (
	"fmt"
	"net/netip"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/ucs"
)

// AddrPort converts an address from the kernel. It returns the zero value if sa is not an IP
// address. It takes the type of package syscall, because the functions of package unix make an
// additional system call to find the kind of the socket. The zone of a link-local address is
// the device index.
func AddrPort(sa syscall.Sockaddr) netip.AddrPort {
	switch sa := sa.(type) {
	case *syscall.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(sa.Addr), uint16(sa.Port))
	case *syscall.SockaddrInet6:
		ip := netip.AddrFrom16(sa.Addr).Unmap()
		if sa.ZoneId != 0 && ip.Is6() {
			ip = Zoned(ip, sa.ZoneId)
		}
		return netip.AddrPortFrom(ip, uint16(sa.Port))
	}
	return netip.AddrPort{}
}

// Zoned returns ip with the device index as its zone.
func Zoned(ip netip.Addr, device uint32) netip.Addr {
	return ip.WithZone(strconv.FormatUint(uint64(device), 10))
}

// Sockaddr converts an address for bind and connect. A zone is the name or the index of a
// device.
func Sockaddr(a netip.AddrPort) (unix.Sockaddr, error) {
	ip := a.Addr().Unmap()
	switch {
	case !ip.IsValid():
		return nil, fmt.Errorf("tcp: no address: %w", ucs.ErrInvalidAddr)
	case ip.Is4():
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: ip.As4()}, nil
	}
	sa := &unix.SockaddrInet6{Port: int(a.Port()), Addr: ip.As16()}
	if zone := ip.Zone(); zone != "" {
		device, err := deviceNumber(zone)
		if err != nil {
			return nil, fmt.Errorf("tcp: no device %q for the zone of address %v: %w", zone, ip, statuserr.New(err, ucs.ErrInvalidAddr))
		}
		sa.ZoneId = device
	}
	return sa, nil
}

// deviceNumber returns the index of the device with the given name. If there is none, and the name
// is a number, it returns that number.
func deviceNumber(name string) (uint32, error) {
	number, notNumber := strconv.ParseUint(name, 10, 32)
	n, err := deviceByName(name)
	if err != nil && notNumber == nil {
		return uint32(number), nil
	}
	return n, err
}

func deviceByName(name string) (uint32, error) {
	req, err := unix.NewIfreq(name)
	if err != nil {
		return 0, err
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	err = unix.IoctlIfreq(fd, unix.SIOCGIFINDEX, req)
	return req.Uint32(), err
}

// DeviceName returns the name of the device with an index. fd may be any socket.
func DeviceName(fd int, number uint32) (string, error) {
	req, err := unix.NewIfreq("")
	if err != nil {
		return "", err
	}
	req.SetUint32(number)
	if err := unix.IoctlIfreq(fd, unix.SIOCGIFNAME, req); err != nil {
		return "", fmt.Errorf("tcp: no device has the index %d: %w", number, statuserr.New(err, ucs.ErrNoDevice))
	}
	return req.Name(), nil
}
