package tcp

import (
	"net"
	"net/netip"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct"
)

var _ uct.SourceLocator = (*conn)(nil)

// Elsewhere implements uct.SourceLocator. An address of this machine is one of
// its devices in this network namespace: a peer in another one counts as being
// elsewhere. What comes through a proxy here seems to be here.
func (c *conn) Elsewhere() bool {
	own, err := unix.Getsockname(int(c.fd))
	if err != nil {
		return true
	}
	peer, err := unix.Getpeername(int(c.fd))
	if err != nil {
		return true
	}
	from := addrOf(peer)
	if from == addrOf(own) || from.IsLoopback() {
		return false
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	for _, a := range list {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok && ip.Unmap() == from {
				return false
			}
		}
	}
	return true
}

// addrOf is the IP address in sa, the zero value if there is none.
func addrOf(sa unix.Sockaddr) netip.Addr {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrFrom4(sa.Addr)
	case *unix.SockaddrInet6:
		return netip.AddrFrom16(sa.Addr).Unmap()
	}
	return netip.Addr{}
}
