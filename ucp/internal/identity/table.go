package identity

import (
	"slices"

	"github.com/ucx-go/ucx/proto"
)

// maxUntrusted is how many untrusted peers of one uuid are searched. The bound keeps the search for
// a peer short.
const maxUntrusted = 64

// MaxIdle is how many identities without a peer a worker remembers, for their next numbers. An
// endpoint to a peer that was forgotten has the number 0 again, so that both sides may have one
// endpoint more than they need.
const MaxIdle = 1024

// Endpoint is an endpoint of the worker, as far as it concerns the endpoint's peer.
type Endpoint interface {
	comparable

	// Number returns the endpoint's number among those of its side toward the peer,
	// proto.ConnSNNone if it has none.
	Number() uint16

	// Counterpart returns the id of the peer's end, 0 if it is not known. confirmed is false for an
	// id that was guessed, until the peer itself names it.
	Counterpart() (id proto.EndpointID, confirmed bool)

	// Claimed reports whether the application has the endpoint. Otherwise only the peer has
	// opened it.
	Claimed() bool

	// Failed reports whether the endpoint has ended with an error.
	Failed() bool
}

// Table holds the peers of a worker. Call Init before using it.
type Table[E Endpoint] struct {
	setPeer func(E, *Peer[E])
	byUUID  map[uint64]*identity[E]
	idle    []*identity[E] // identities without a peer, in the order in which they lost the last one
}

// identity is all peers that go by one uuid.
type identity[E Endpoint] struct {
	uuid       uint64
	nextNumber uint16     // number of the endpoint that the application creates next
	idle       bool       // the identity is in Table.idle
	endpoints  int32      // endpoints toward any of the peers
	peers      []*Peer[E] // mostly one; at most maxUntrusted of them are not trusted
}

// Init makes an empty table. setPeer is called for each endpoint whose peer changes, with its peer
// from then on.
func (t *Table[E]) Init(setPeer func(E, *Peer[E])) {
	t.setPeer, t.byUUID, t.idle = setPeer, make(map[uint64]*identity[E]), nil
}

// Len returns the number of uuids that the table remembers.
func (t *Table[E]) Len() int { return len(t.byUUID) }

// Idle returns how many of these uuids have no peer, and are remembered for their numbers.
func (t *Table[E]) Idle() int { return len(t.idle) }

// Find returns the peer that has a uuid and one of the entries at, nil if there is none. A trusted
// peer comes before the others.
func (t *Table[E]) Find(uuid uint64, at []EntryID) *Peer[E] {
	k := t.byUUID[uuid]
	if k == nil {
		return nil
	}
	var found *Peer[E]
	for _, p := range k.peers {
		if shares(p.entries, at) && (found == nil || p.Trusted() && !found.Trusted()) {
			found = p
		}
	}
	return found
}

// FindTrusted returns the first trusted peer of a uuid, nil if there is none.
func (t *Table[E]) FindTrusted(uuid uint64) *Peer[E] {
	if k := t.byUUID[uuid]; k != nil {
		for _, p := range k.peers {
			if p.Trusted() {
				return p
			}
		}
	}
	return nil
}

// Addresses returns the addresses of the trusted peers of a uuid that have an entry.
func (t *Table[E]) Addresses(uuid uint64, e EntryID) (list []*proto.WorkerAddress) {
	if k := t.byUUID[uuid]; k != nil {
		for _, p := range k.peers {
			if p.Trusted() && slices.Contains(p.entries, e) {
				list = append(list, p.address)
			}
		}
	}
	return list
}

// HasNumbered reports whether the application has created an endpoint toward a peer of the uuid,
// as far as the table remembers.
func (t *Table[E]) HasNumbered(uuid uint64) bool {
	k := t.byUUID[uuid]
	return k != nil && k.nextNumber != 0
}

// Given returns the peer of an address that the application gave, and creates it if there is none.
// An untrusted peer with the uuid that has claimed no other entries is this peer; one that has
// claimed other entries as well may be another peer. The caller sets Peer.Given or Peer.Allowed, or
// releases the peer.
func (t *Table[E]) Given(addr *proto.WorkerAddress) *Peer[E] {
	at := EntriesOf(addr)
	p := t.Find(addr.UUID, at)
	if p != nil && !p.Trusted() && !Contains(at, p.entries) {
		p = nil
	}
	if p == nil {
		k := t.identityOf(addr.UUID)
		p = &Peer[E]{identity: k}
		k.peers = append(k.peers, p)
	}
	for _, e := range at {
		if len(p.entries) < maxEntries && !slices.Contains(p.entries, e) {
			p.entries = append(p.entries, e)
		}
	}
	for _, q := range slices.Clone(p.identity.peers) {
		if q != p && !q.Trusted() && shares(q.entries, at) && Contains(at, q.entries) {
			t.Merge(q, p)
		}
	}
	p.KeepAddress(addr)
	return p
}

// NewUntrusted returns a new peer for the address that a requester claims. The caller adds an
// endpoint or releases the peer.
func (t *Table[E]) NewUntrusted(addr *proto.WorkerAddress) *Peer[E] {
	k := t.identityOf(addr.UUID)
	p := &Peer[E]{identity: k, entries: EntriesOf(addr)}
	untrusted := 0
	for _, o := range k.peers {
		if !o.Trusted() {
			untrusted++
		}
	}
	if untrusted < maxUntrusted {
		k.peers = append(k.peers, p)
	}
	return p
}

// NewUnidentified returns a peer of which not even the uuid is known, for an endpoint that was made
// by a socket address. Find never returns it.
func (t *Table[E]) NewUnidentified() *Peer[E] { return &Peer[E]{identity: new(identity[E])} }

// identityOf returns the identity of a uuid, and creates it if there is none. The caller adds a
// peer.
func (t *Table[E]) identityOf(uuid uint64) *identity[E] {
	k := t.byUUID[uuid]
	if k == nil {
		k = &identity[E]{uuid: uuid}
		t.byUUID[uuid] = k
	}
	return k
}

// Merge merges q into p: the two are one peer, by evidence that q cannot make up.
func (t *Table[E]) Merge(q, p *Peer[E]) {
	if q == p {
		return
	}
	q.mergedInto = p
	q.identity.remove(q)
	for _, e := range q.endpoints {
		t.setPeer(e, p)
	}
	p.endpoints = append(p.endpoints, q.endpoints...)
	for n, e := range q.unmatched {
		if _, taken := p.unmatched[n]; !taken {
			p.AddUnmatched(e)
		}
	}
	q.endpoints, q.unmatched = nil, nil
	p.contested = p.contested || q.contested
	if p.LastSource == nil {
		p.LastSource = q.LastSource
	}
	if p.certificate() == nil && q.certificate() != nil {
		p.ensureExtra().certificate = q.certificate()
	}
}

// remove removes a peer of the uuid.
func (k *identity[E]) remove(p *Peer[E]) {
	k.peers = slices.DeleteFunc(k.peers, func(o *Peer[E]) bool { return o == p })
}

// Add records that an endpoint leads to a peer.
func (t *Table[E]) Add(e E, p *Peer[E]) {
	t.setPeer(e, p)
	p.endpoints = append(p.endpoints, e)
	p.identity.endpoints++
}

// Remove removes a closed endpoint from its peer, and releases the peer if that was its last
// endpoint. It takes as long as the peer has newer endpoints.
func (t *Table[E]) Remove(e E, p *Peer[E]) {
	p.DropUnmatched(e)
	last := len(p.endpoints) - 1
	for k := last; k >= 0; k-- { // endpoints that are evicted are the newest
		if p.endpoints[k] == e {
			var none E
			p.endpoints[k], p.endpoints[last] = p.endpoints[last], none
			p.endpoints = p.endpoints[:last]
			break
		}
	}
	p.identity.endpoints--
	t.Release(p)
}

// Release forgets a peer that has no endpoint, is not allowed, and is not merged, because untrusted
// peers must not make the worker grow. An identity to which the application has created endpoints
// is kept for a while, for its next number (MaxIdle).
func (t *Table[E]) Release(p *Peer[E]) {
	if len(p.endpoints) > 0 || p.Allowed || p.mergedInto != nil {
		return
	}
	p.endpoints = nil
	k := p.identity
	k.remove(p)
	if len(k.peers) > 0 || k.endpoints > 0 || t.byUUID[k.uuid] != k {
		return
	}
	if k.nextNumber == 0 {
		delete(t.byUUID, k.uuid)
		return
	}
	if k.idle {
		return
	}
	k.idle = true
	t.idle = append(t.idle, k)
	if len(t.idle) <= MaxIdle {
		return
	}
	oldest := t.idle[0]
	t.idle = slices.Delete(t.idle, 0, 1)
	oldest.idle = false
	if len(oldest.peers) == 0 && oldest.endpoints == 0 && t.byUUID[oldest.uuid] == oldest {
		delete(t.byUUID, oldest.uuid)
	}
}
