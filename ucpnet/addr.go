package ucpnet

import (
	"net"
	"net/netip"
	"slices"
)

// network is what Addr.Network and the errors say.
const network = "ucp"

// Addr is the socket address of an end of a connection, or of a listener. The end of a Pipe
// has none.
type Addr struct{ netip.AddrPort }

// Network is "ucp".
func (a *Addr) Network() string { return network }

// String is the address and port as in net.TCPAddr, "pipe" for the end of a Pipe.
func (a *Addr) String() string {
	if !a.IsValid() {
		return "pipe"
	}
	return a.AddrPort.String()
}

// isOwn reports whether an address is of this machine.
func isOwn(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	own, _ := net.InterfaceAddrs() // without it the connection goes over a transport
	return slices.ContainsFunc(own, func(n net.Addr) bool {
		p, ok := n.(*net.IPNet)
		if !ok {
			return false
		}
		ip, _ := netip.AddrFromSlice(p.IP)
		return ip.Unmap() == a
	})
}
