package ledger

import (
	"cmp"
	"fmt"
	"net/netip"
)

// Source identifies the peer that an account is charged for. The zero Addr without a user
// represents all peers of shared memory and of other transports that do not tell their peers apart.
type Source struct {
	Addr netip.Addr // the address of the peer; for IPv6 its /64
	UID  int        // the user of a local peer, -1 if unknown
}

// Shared is the source of all peers that cannot be told apart.
var Shared = Source{UID: -1}

// SourceOf returns the source of a connection: the user of this machine, for all processes of that
// user and any local address; one IPv4 address; or a /64 of IPv6, in which one peer has 2^64
// addresses. uid is -1 if unknown.
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

// compare orders sources: by address, then by user.
func (s Source) compare(o Source) int {
	return cmp.Or(s.Addr.Compare(o.Addr), cmp.Compare(s.UID, o.UID))
}

// String returns the source for messages.
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
