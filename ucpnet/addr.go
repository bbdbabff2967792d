package ucpnet

import "net/netip"

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
