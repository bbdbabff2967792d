//go:build linux

package tcp

import (
	"net/netip"
	"slices"

	"github.com/ucx-go/ucx/uct"
)

// scope is a peer as the addresses say that it has published.
type scope struct {
	listeners []sockaddr
	ips       []netip.Addr

	// Room for the usual one.
	listener [1]sockaddr
	ip       [1]netip.Addr
}

// newScope makes the scope of a peer.
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

// identify finds out what admits has to know, before the table of exposed memory is
// locked: it may ask the kernel, now and then.
func (c *conn) identify() {
	if c.ep == nil && !c.outgoing && c.mayBeHere() {
		c.listens()
	}
}

// admits reports whether a connection is of the peer: one over which an endpoint of
// ours sends to where it listens, or one that claims its listener and comes from an address of it,
// within the machine from its user. Where the kernel does not say whose sockets are
// whose, the address is all there is; where it cannot say just now, that is not enough.
func (s *scope) admits(c *conn) bool {
	if !slices.Contains(s.listeners, c.peer) {
		return false
	}
	if c.ep != nil && !c.ep.returns || c.outgoing {
		return true
	}
	return slices.Contains(s.ips, c.from.addr.Addr().WithZone("")) && c.owner != ownerOther && c.owner != ownerUnsure
}
