package ucpnet

import (
	"net"
	"net/netip"
	"slices"
)

// network is what Addr.Network and the errors say.
const network = "ucp"

// Addr is the socket address of one end of a connection, or of a listener. The ends of a
// Pipe have none.
type Addr struct{ netip.AddrPort }

// Network returns "ucp".
func (a *Addr) Network() string { return network }

// String returns the address and port as net.TCPAddr does, or "pipe" for the end of a Pipe.
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
