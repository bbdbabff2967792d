package ucp

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// laneRules are what lanes an endpoint may have. The zero value: any.
type laneRules struct {
	mismatch *error // where to leave that a peer takes an interface here for reachable (uct.ErrMismatch)

	refused map[laneRoute]error // those that could not be created, and why
	back    *wayBack            // over a connection that the peer has made

	spare []lane               // connected already, for those that lead to the same
	made  []madeLane           // not connected pairwise, for those of the same kind
	ends  *proto.WorkerAddress // that of a request: pairwise lanes are for the ends in it

	cm     bool       // a connection manager connects the endpoint
	mutual bool       // the peer can have the same, in ErrModePeer, also if it is C UCX
	local  netip.Addr // of ours, at which the manager's connection reaches us
	device string     // of ours, that the lanes are of: it knows that the peer is reached there; "" for any

	origin uct.Origin // of the address

	second bool // by the second address of a device, too (uct.DualStack)

	messages bool // one for messages and no other
	answer   bool // that needs no connection moreover: for a question of the peer's
}

// plain reports whether they leave everything open.
func (r *laneRules) plain() bool {
	return len(r.refused) == 0 && r.back == nil && !r.cm && r.ends == nil && !r.answer
}

// wayBack is a connection of a peer's, and the interface that it came to.
type wayBack struct {
	iface *iface
	src   *uct.Source
}

// source is the connection, nil if there is no way back to keep to.
func (b *wayBack) source() *uct.Source {
	if b == nil {
		return nil
	}
	return b.src
}

// reachable reports whether an interface has the connection.
func (b *wayBack) reachable(i *iface) error {
	if i != b.iface {
		return fmt.Errorf("ucp: the peer's connection arrived at another device: %w", ucs.ErrUnreachable)
	}
	return nil
}

// laneRoute is an interface and an entry of the peer's address, by number.
type laneRoute struct{ local, remote int }

// spareFor returns which of the spare lanes is connected with an end that the address
// names at an entry; -1 if none is, or it is one of those taken.
func (r *laneRules) spareFor(i *iface, addr *proto.WorkerAddress, entry int, taken []lane) int {
	return slices.IndexFunc(r.spare, func(s lane) bool {
		if s.iface != i || hasLane(taken, s.uct) {
			return false
		}
		return s.isFor(addr.Entry(entry))
	})
}

// hasSpare reports whether a spare lane of an interface, by another address than the
// interface's, is connected with an end at an entry.
func (r *laneRules) hasSpare(i *iface, dev *proto.AddressDevice, f *proto.AddressIface) bool {
	return slices.ContainsFunc(r.spare, func(s lane) bool {
		m, ok := s.uct.(uct.Multihomed)
		if !ok || s.iface != i {
			return false
		}
		_, other := m.InterfaceAddr()
		return other && s.isFor(dev, f)
	})
}

// isSpare reports whether a lane was there before.
func (r *laneRules) isSpare(l lane) bool {
	return hasLane(r.spare, l.uct) || slices.ContainsFunc(r.made, func(m madeLane) bool { return m.uct == l.uct })
}

// madeLane is a lane that is not connected pairwise, and where it leads.
type madeLane struct {
	lane
	path  int
	entry entryID
}

// reuse returns a lane that was there before and does what another is to be made for.
func (r *laneRules) reuse(i *iface, addr *proto.WorkerAddress, l *proto.Lane, taken []lane) (lane, bool) {
	if k := r.spareFor(i, addr, l.Remote, taken); k >= 0 {
		return r.spare[k], true
	}
	dev, f := addr.Entry(l.Remote)
	for k := range r.made {
		m := &r.made[k]
		if m.iface == i && m.path == l.Path && m.entry == idOf(f.Transport, dev.Addr, f.Addr) && !hasLane(taken, m.uct) {
			return m.lane, true
		}
	}
	return lane{}, false
}

// errNoEnd is why a pairwise lane does not lead to an entry.
var errNoEnd = fmt.Errorf("ucp: the peer has no endpoint there: %w", ucs.ErrUnreachable)

// endsFor is how many ends the request names at an entry for lanes of an interface: those
// that lanes of another are connected with are not for it.
func (r *laneRules) endsFor(i *iface, entry int) (n int) {
	dev, f := r.ends.Entry(entry)
	if f == nil {
		return 0
	}
	for k := range f.EpAddrs {
		other := func(s lane) bool { return s.iface != i && s.leadsTo(dev, f, f.EpAddrs[k].Addr) }
		if !slices.ContainsFunc(r.spare, other) {
			n++
		}
	}
	return n
}

// entryOf returns the entry with the end in the request that a lane is connected with, -1 if
// none has it.
func (r *laneRules) entryOf(s *lane) (entry int) {
	entry = -1
	r.ends.Ifaces(func(n int, dev *proto.AddressDevice, f *proto.AddressIface) bool {
		if s.isFor(dev, f) {
			entry = n
		}
		return entry < 0
	})
	return entry
}
