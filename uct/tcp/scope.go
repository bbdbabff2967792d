//go:build linux

package tcp

import (
	"net/netip"
	"slices"

	"github.com/ucx-go/ucx/uct"
)

// scope identifies a peer by the addresses that the peer has published.
type scope struct {
	listeners []sockaddr
	ips       []netip.Addr

	// Arrays for the usual case of one listener, which save allocations.
	listener [1]sockaddr
	ip       [1]netip.Addr
}

// newScope returns the scope of a peer. Addresses that cannot be parsed are skipped.
func newScope(peer []uct.ReachableParams) *scope {
	s := new(scope)
	s.listeners, s.ips = s.listener[:0], s.ip[:0]
	for _, p := range peer {
		_, listener, err := parseListener(p.DeviceAddr, p.IfaceAddr)
		if err != nil {
			continue
		}
		if !slices.Contains(s.listeners, listener) {
			s.listeners = append(s.listeners, listener)
		}
		if ip := listener.addrPort().Addr(); !slices.Contains(s.ips, ip) {
			s.ips = append(s.ips, ip)
		}
	}
	return s
}

// identify finds the owner of a connection within the machine, which admits needs. It is called
// before the table of exposed memory is locked, because it may query the kernel.
func (c *conn) identify() {
	if c.ep == nil && !c.outgoing && c.mayBeHere() {
		c.listens()
	}
}

// admits reports whether a connection is one of the peer's. The connection must name a listener of
// the peer. In addition either an endpoint of this side sends on it to that listener, or this side
// made it, or it comes from an address of the peer and, within the machine, from a process of the
// user who owns the listener. If the kernel does not report the owners of sockets, the address is
// sufficient; if the kernel could not tell just now, the address is not sufficient.
func (s *scope) admits(c *conn) bool {
	if !slices.Contains(s.listeners, c.peer) {
		return false
	}
	if c.ep != nil && !c.ep.returns || c.outgoing {
		return true
	}
	return slices.Contains(s.ips, c.from.addr.Addr().WithZone("")) && c.owner != ownerOther && c.owner != ownerUnsure
}
