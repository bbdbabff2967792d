package identity

import (
	"bytes"
	"net/netip"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/admit"
)

// Peer is what a worker remembers about another worker.
type Peer[E Endpoint] struct {
	Given     bool // the application has made an endpoint to the peer
	Allowed   bool // the application has allowed the peer (ucp.Worker.Allow)
	contested bool // another requester claims to be this peer, too

	LastSource Source // the connection of the last wireup message of the peer, nil if unknown or ended

	identity   *identity[E]
	entries    []EntryID
	address    *proto.WorkerAddress // the last address, or the last from the application if it gave one
	endpoints  []E                  // toward this peer
	unmatched  map[uint16]E         // by number, the endpoints that wait for their counterpart
	mergedInto *Peer[E]             // the peer that this one turned out to be
	extra      *extra               // nil for most peers
}

// extra is what is remembered of few peers.
type extra struct {
	migrated    netip.Addr         // another address that the peer connects from
	certificate *admit.Certificate // the certificate that the peer first connected with, nil if none
}

// UUID returns the uuid of the peer, 0 if it is not known.
func (p *Peer[E]) UUID() uint64 { return p.identity.uuid }

// Identify sets the uuid of a peer that NewUnidentified has made. It reports false if the peer has
// another uuid.
func (p *Peer[E]) Identify(uuid uint64) bool {
	if p.identity.uuid == 0 {
		p.identity.uuid = uuid
	}
	return p.identity.uuid == uuid
}

// Trusted reports whether the application trusts the peer: it has made an endpoint to the peer or
// has allowed the peer.
func (p *Peer[E]) Trusted() bool { return p.Given || p.Allowed }

// Contested reports whether two requesters claim to be the peer.
func (p *Peer[E]) Contested() bool { return p.contested }

// Endpoints returns the endpoints toward the peer. The slice belongs to the peer.
func (p *Peer[E]) Endpoints() []E { return p.endpoints }

// Entries returns the entries of the peer's addresses. The slice belongs to the peer.
func (p *Peer[E]) Entries() []EntryID { return p.entries }

// Canonical returns the peer that p was merged into, p if it was not merged, nil for nil.
func (p *Peer[E]) Canonical() *Peer[E] {
	for p != nil && p.mergedInto != nil {
		p = p.mergedInto
	}
	return p
}

// Address returns the address that is kept of the peer, nil if none is.
func (p *Peer[E]) Address() *proto.WorkerAddress { return p.address }

// KeepAddress replaces the kept address: an interface gets a new address when its ring is replaced.
// Endpoints share the address, which must not be changed.
func (p *Peer[E]) KeepAddress(addr *proto.WorkerAddress) *proto.WorkerAddress {
	p.address = p.ShareAddress(addr)
	return p.address
}

// ShareAddress returns the kept address if it equals addr, otherwise a copy of addr.
func (p *Peer[E]) ShareAddress(addr *proto.WorkerAddress) *proto.WorkerAddress {
	if p.address != nil {
		old, err := p.address.Append(nil, proto.FormWireup)
		now, unpackable := addr.Append(nil, proto.FormWireup)
		if err == nil && unpackable == nil && bytes.Equal(old, now) {
			return p.address
		}
	}
	return addr.Clone()
}

// MayMigrate reports whether the peer may connect from an IP address that is in none of its
// entries. The first such address is remembered, and only that one is possible, until
// ClearMigrated.
func (p *Peer[E]) MayMigrate(ip netip.Addr) bool {
	x := p.ensureExtra()
	if !x.migrated.IsValid() {
		x.migrated = ip
	}
	return x.migrated == ip
}

// ClearMigrated makes the peer forget the address that MayMigrate has remembered.
func (p *Peer[E]) ClearMigrated() {
	if p.extra != nil {
		p.extra.migrated = netip.Addr{}
	}
}

// certificate returns the certificate that the peer first connected with, nil if it had none.
func (p *Peer[E]) certificate() *admit.Certificate {
	if p.extra == nil {
		return nil
	}
	return p.extra.certificate
}

// ensureExtra returns the extra of the peer, to be changed, and creates it if there is none.
func (p *Peer[E]) ensureExtra() *extra {
	if p.extra == nil {
		p.extra = new(extra)
	}
	return p.extra
}

// TakeNumber returns the number of the next endpoint that the application creates toward the uuid
// of the peer. Once the numbers are used up it returns proto.ConnSNNone, which matches nothing.
func (p *Peer[E]) TakeNumber() uint16 {
	k := p.identity
	n := k.nextNumber
	if n != proto.ConnSNNone {
		k.nextNumber++
	}
	return n
}

// ReturnNumber takes back the number that TakeNumber has just returned, because its endpoint could
// not be made.
func (p *Peer[E]) ReturnNumber(n uint16) { p.identity.nextNumber = n }

// Unmatched returns the endpoint that waits under a number for its counterpart, and whether there
// is one.
func (p *Peer[E]) Unmatched(n uint16) (E, bool) {
	e, ok := p.unmatched[n]
	return e, ok
}

// AddUnmatched remembers an endpoint until the peer names the endpoint's counterpart. Endpoints
// without a number are never named.
func (p *Peer[E]) AddUnmatched(e E) {
	n := e.Number()
	if n == proto.ConnSNNone {
		return
	}
	if p.unmatched == nil {
		p.unmatched = make(map[uint16]E)
	}
	p.unmatched[n] = e
}

// DropUnmatched forgets an endpoint that is matched or closed.
func (p *Peer[E]) DropUnmatched(e E) {
	n := e.Number()
	if o, ok := p.unmatched[n]; !ok || o != e {
		return
	}
	// An empty map is released: most peers have no other endpoint that waits, and the map is as
	// large as all the rest of a peer.
	if delete(p.unmatched, n); len(p.unmatched) == 0 {
		p.unmatched = nil
	}
}

// Claim returns the endpoint that the peer has opened under a number, for the application, which
// creates the endpoint with that number now; ok is false if there is none. An endpoint of a
// contested peer is not given out, nor one for which suits is false: it may be that of another
// requester, or about to end.
func (p *Peer[E]) Claim(n uint16, suits func(E) bool) (e E, ok bool) {
	e, ok = p.unmatched[n]
	if !ok || p.contested || e.Claimed() || n == proto.ConnSNNone || !suits(e) {
		var none E
		return none, false
	}
	p.DropUnmatched(e)
	return e, true
}

// Verdict says what to do with a wireup request (package comment, Numbers).
type Verdict uint8

// Verdicts on a wireup request.
const (
	Open      Verdict = iota // open an endpoint for the requester
	Connected                // ignore the request: another endpoint is connected with the requester's end
	Pair                     // connect the endpoint that waits with the requester's end
	Repeated                 // answer again, or ignore the request: it was answered before
	Contested                // open an endpoint for the requester, which competes with another requester
)

// Match judges a wireup request of the peer. n is the number in the request and id the id of the
// requester's end. Match returns the endpoint that waits under the number for Pair and Repeated, for
// Repeated also one that waits no more, and marks the peer as contested for Contested. p may be nil, for a
// requester that is not known.
func (p *Peer[E]) Match(n uint16, id proto.EndpointID) (v Verdict, e E) {
	var none E
	if p == nil {
		return Open, none
	}
	e, waits := p.unmatched[n]
	if n == proto.ConnSNNone || !waits {
		connected := false
		for _, e := range p.endpoints {
			if its, confirmed := e.Counterpart(); its != id || !confirmed || !e.Claimed() {
				continue
			}
			if e.Number() == n && n != proto.ConnSNNone {
				return Repeated, e
			}
			connected = connected || !e.Failed()
		}
		if connected {
			return Connected, none
		}
		return Open, none
	}
	switch its, confirmed := e.Counterpart(); {
	case its == 0 || !confirmed:
		return Pair, e
	case its == id:
		return Repeated, e
	}
	p.contested = true
	return Contested, none
}
