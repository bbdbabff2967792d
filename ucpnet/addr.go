package ucpnet

import (
	"net"
	"net/netip"
	"slices"
)

// network is the name of the network that Addr.Network returns and that errors contain.
const network = "ucp"

// Addr is the socket address of one side of a connection, or of a listener. It is the zero Addr for
// the connections that Pipe returns.
type Addr struct{ netip.AddrPort }

// Network returns "ucp".
func (a *Addr) Network() string { return network }

// String returns the address and port as net.TCPAddr does, or "pipe" for a connection of Pipe.
func (a *Addr) String() string {
	if !a.IsValid() {
		return "pipe"
	}
	return a.AddrPort.String()
}

// isOwn reports whether an address belongs to this machine.
func isOwn(a netip.Addr) bool {
	if a.IsLoopback() || a.IsUnspecified() {
		return true
	}
	own, _ := net.InterfaceAddrs() // without the addresses the connection uses a transport
	return slices.ContainsFunc(own, func(n net.Addr) bool {
		p, ok := n.(*net.IPNet)
		if !ok {
			return false
		}
		ip, _ := netip.AddrFromSlice(p.IP)
		return ip.Unmap() == a
	})
}
