package ledger

import (
	"fmt"
	"net/netip"
)

// Source says who pays. The zero Addr without a user stands for all that come
// through shared memory or another transport that does not tell its peers apart.
type Source struct {
	Addr netip.Addr // where the connection comes from; the /64 of an address of IPv6
	UID  int        // the user of a local peer, -1 where unknown
}

// Shared is the account of peers that nobody tells apart.
var Shared = Source{UID: -1}

// SourceOf returns who pays for a connection: a user of this machine for all of his
// processes, whatever local address they have come from; one address; or a network of
// IPv6 addresses, of which anybody has 2^64. uid is -1 where unknown.
func SourceOf(addr netip.Addr, uid int) Source {
	addr = addr.Unmap()
	switch {
	case uid >= 0:
		return Source{UID: uid}
	case addr.IsLoopback():
		addr = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	case addr.Is6():
		p, err := addr.Prefix(64)
		if err == nil {
			addr = p.Addr().WithZone(addr.Zone())
		}
	}
	return Source{Addr: addr, UID: -1}
}

// String names the source for people.
func (s Source) String() string {
	switch {
	case s.UID >= 0:
		return fmt.Sprintf("user %d", s.UID)
	case !s.Addr.IsValid():
		return "shared memory"
	case s.Addr.Is6():
		return s.Addr.String() + "/64"
	}
	return s.Addr.String()
}
