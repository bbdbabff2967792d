package ucp

import (
	"bytes"
	"encoding/binary"
	"hash/maphash"
	"net/netip"
	"slices"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// The peers that a worker knows. A uuid is published: any process can claim it. What a worker
// remembers is therefore not of a uuid, but of each peer that goes by the uuid. Such peers are
// told apart by where they are: addresses that have an entry in common belong to one peer. The
// application is trusted with the addresses that it gives. Of the addresses that come in requests
// only what the kernel verifies is used (admit_address.go).

// peerTable holds the peers that a worker knows.
type peerTable struct {
	w               *Worker
	byUUID          map[uint64]*identity
	idlePeers       []*identity  // identities without an endpoint, in the order in which they became idle
	selfPeer        peer         // the worker itself, of which only the address is kept
	lastDestination *destination // destination of the endpoint made last
}

// identity is all peers that go by one uuid.
type identity struct {
	uuid          uint64
	nextSN        uint16  // number of the endpoint that the application creates next
	idle          bool    // the identity is in peerTable.idlePeers
	endpointCount int     // endpoints toward any of the peers
	peers         []*peer // mostly one; at most maxUntrustedPeers of them are not trusted
}

// maxUntrustedPeers is how many untrusted peers of one uuid are told apart by where they are.
// Further ones get endpoints as well, but none that the application could be given. The bound
// keeps the search for a peer short.
const maxUntrustedPeers = 64

// peer is what a worker remembers about another worker. The k-th endpoint that
// one side creates toward the other is paired with the k-th of the other side:
// both number them from 0 (ucp_ep_match in src/ucp/wireup/ep_match.c).
type peer struct {
	*identity
	entries   []entryID
	address   *proto.WorkerAddress // the last address, or the last from the application if it gave one
	given     bool                 // the application has made an endpoint to the peer
	allowed   bool                 // the application has allowed the peer (Worker.Allow)
	contested bool                 // another requester claims to be this peer, too
	endpoints []*Endpoint          // toward this peer

	// unmatched holds by number the endpoints that wait for their counterpart: created here and
	// not yet named by the peer, or opened by the peer and not yet created here.
	unmatched map[uint16]*Endpoint

	mergedInto *peer   // the peer that this one turned out to be
	lastSource *source // the source of the last wireup message of the peer

	extra *peerExtra // nil for most peers
}

// peerExtra is what is remembered of few peers.
type peerExtra struct {
	migratedAddr netip.Addr   // another address that the peer connects from (migrated peer)
	certificate  *certificate // the certificate that the peer first connected with, nil if none
}

// certificate returns the certificate that the peer first connected with, nil if it had none.
func (p *peer) certificate() *certificate {
	if p.extra == nil {
		return nil
	}
	return p.extra.certificate
}

// ensureExtra returns the peerExtra of the peer, to be changed, and creates it if there is none.
func (p *peer) ensureExtra() *peerExtra {
	if p.extra == nil {
		p.extra = new(peerExtra)
	}
	return p.extra
}

// maxIdlePeers is how many identities without an endpoint a worker remembers. An endpoint to a
// peer that was forgotten has the number 0 again, so that both sides may have one endpoint more
// than they need.
const maxIdlePeers = 1024

// trusted reports whether the application trusts the peer: it has made an endpoint to the peer or
// has allowed the peer.
func (p *peer) trusted() bool { return p.given || p.allowed }

// canonical returns the peer that p was merged into, p if it was not merged.
func (p *peer) canonical() *peer {
	for p != nil && p.mergedInto != nil {
		p = p.mergedInto
	}
	return p
}

// findPeer returns the peer that has a uuid and one of the entries at, nil if there is none. A
// trusted peer comes before the others.
func (pt *peerTable) findPeer(uuid uint64, at []entryID) *peer {
	k := pt.byUUID[uuid]
	if k == nil {
		return nil
	}
	var found *peer
	for _, p := range k.peers {
		if shares(p.entries, at) && (found == nil || p.trusted() && !found.trusted()) {
			found = p
		}
	}
	return found
}

// trustedPeer returns the first trusted peer of a uuid, nil if there is none.
func (pt *peerTable) trustedPeer(uuid uint64) *peer {
	if k := pt.byUUID[uuid]; k != nil {
		for _, p := range k.peers {
			if p.trusted() {
				return p
			}
		}
	}
	return nil
}

// peerOf returns the peer of an address that the application gave, and creates it if there is
// none. An untrusted peer with the uuid that has claimed no other entries is this peer; one that
// has claimed other entries as well may be another peer.
func (pt *peerTable) peerOf(addr *proto.WorkerAddress) *peer {
	at := entriesOf(addr)
	p := pt.findPeer(addr.UUID, at)
	if p != nil && !p.trusted() && !contains(at, p.entries) {
		p = nil
	}
	if p == nil {
		p = pt.newPeer(addr.UUID)
	}
	for _, e := range at {
		if len(p.entries) < maxEntries && !slices.Contains(p.entries, e) {
			p.entries = append(p.entries, e)
		}
	}
	for _, q := range slices.Clone(p.peers) {
		if q != p && !q.trusted() && shares(q.entries, at) && contains(at, q.entries) {
			pt.mergePeers(q, p)
		}
	}
	p.keepAddress(addr)
	return p
}

// newUntrustedPeer returns a new peer for the address that a requester claims.
func (pt *peerTable) newUntrustedPeer(addr *proto.WorkerAddress) *peer {
	k := pt.identityOf(addr.UUID)
	p := &peer{identity: k, entries: entriesOf(addr)}
	strangers := 0
	for _, o := range k.peers {
		if !o.trusted() {
			strangers++
		}
	}
	if strangers < maxUntrustedPeers {
		k.peers = append(k.peers, p)
	}
	return p
}

func (pt *peerTable) newPeer(uuid uint64) *peer {
	k := pt.identityOf(uuid)
	p := &peer{identity: k}
	k.peers = append(k.peers, p)
	return p
}

// identityOf returns the identity of a uuid, and creates it if there is none. The caller adds to
// it.
func (pt *peerTable) identityOf(uuid uint64) *identity {
	k := pt.byUUID[uuid]
	if k == nil {
		k = &identity{uuid: uuid}
		pt.byUUID[uuid] = k
	}
	return k
}

// remove removes a peer of the uuid.
func (k *identity) remove(p *peer) {
	k.peers = slices.DeleteFunc(k.peers, func(o *peer) bool { return o == p })
}

// keepAddress replaces the kept address: an interface gets a new address when its ring is
// replaced. Endpoints share the address.
func (p *peer) keepAddress(addr *proto.WorkerAddress) *proto.WorkerAddress {
	p.address = p.shareAddress(addr)
	return p.address
}

// shareAddress returns the kept address if it equals addr, otherwise a copy of addr.
func (p *peer) shareAddress(addr *proto.WorkerAddress) *proto.WorkerAddress {
	if p.address != nil {
		old, err := p.address.Append(nil, proto.FormWireup)
		now, unpackable := addr.Append(nil, proto.FormWireup)
		if err == nil && unpackable == nil && bytes.Equal(old, now) {
			return p.address
		}
	}
	return addr.Clone()
}

// mergePeers merges q into p: the two are one peer, by evidence that q cannot make up.
func (pt *peerTable) mergePeers(q, p *peer) {
	if q == p {
		return
	}
	q.mergedInto = p
	q.identity.remove(q)
	for _, ep := range q.endpoints {
		ep.peer = p
	}
	p.endpoints = append(p.endpoints, q.endpoints...)
	for sn, ep := range q.unmatched {
		if p.unmatched[sn] == nil {
			p.addUnmatched(ep)
		}
	}
	q.endpoints, q.unmatched = nil, nil
	p.contested = p.contested || q.contested
	if p.lastSource == nil {
		p.lastSource = q.lastSource
	}
	if p.certificate() == nil && q.certificate() != nil {
		p.ensureExtra().certificate = q.certificate()
	}
}

// takeSN returns the number of the next endpoint created here. Once the numbers are used up it
// returns proto.ConnSNNone, which matches nothing.
func (k *identity) takeSN() uint16 {
	sn := k.nextSN
	if sn != proto.ConnSNNone {
		k.nextSN++
	}
	return sn
}

// returnSN returns the number just taken, because its endpoint could not be made.
func (k *identity) returnSN(sn uint16) { k.nextSN = sn }

// setPeer records that an endpoint leads to a peer.
func (pt *peerTable) setPeer(ep *Endpoint, p *peer) {
	ep.peer = p
	p.endpoints = append(p.endpoints, ep)
	p.identity.endpointCount++
}

// hasEndpointTo reports whether an endpoint that was made here is connected with the peer's
// endpoint id.
func (p *peer) hasEndpointTo(id proto.EndpointID) bool {
	return p != nil && slices.ContainsFunc(p.endpoints, func(ep *Endpoint) bool {
		return ep.remoteID == id && ep.err == nil && ep.life.Mine() && ep.state&epUnconfirmed == 0
	})
}

// takeUnmatched returns the endpoint that the peer opened under a number, nil if there is none.
// The endpoint becomes the one that the application creates with an address. It is the peer's
// only if all its lanes lead to entries of that address.
func (p *peer) takeUnmatched(sn uint16, addr *proto.WorkerAddress) *Endpoint {
	ep := p.unmatched[sn]
	if ep == nil || p.contested || ep.life.Mine() || sn == proto.ConnSNNone || !ep.w.peers.leadsTo(ep, addr) {
		return nil
	}
	p.removeUnmatched(sn)
	if from := ep.w.accounts.uncharge(ep); from != nil {
		ep.w.accounts.bindAccount(ep, from.account().ledger.Source())
	}
	return ep
}

// addUnmatched remembers an endpoint until the peer names the endpoint's counterpart.
func (p *peer) addUnmatched(ep *Endpoint) {
	if ep.connSN == proto.ConnSNNone {
		return
	}
	if p.unmatched == nil {
		p.unmatched = make(map[uint16]*Endpoint)
	}
	p.unmatched[ep.connSN] = ep
}

// dropUnmatched forgets an endpoint that is matched or closed.
func (p *peer) dropUnmatched(ep *Endpoint) {
	if p.unmatched[ep.connSN] == ep {
		p.removeUnmatched(ep.connSN)
	}
}

// removeUnmatched forgets the endpoint of a number. An empty map is released: most peers have no
// other endpoint that waits, and the map is as large as all the rest of a peer.
func (p *peer) removeUnmatched(sn uint16) {
	if delete(p.unmatched, sn); len(p.unmatched) == 0 {
		p.unmatched = nil
	}
}

// endpointClosed removes a closed endpoint from its peer, and releases the peer with its last
// endpoint.
func (pt *peerTable) endpointClosed(p *peer, ep *Endpoint) {
	last := len(p.endpoints) - 1
	for k := last; k >= 0; k-- { // endpoints that are evicted are the newest
		if p.endpoints[k] == ep {
			p.endpoints[k], p.endpoints[last] = p.endpoints[last], nil
			p.endpoints = p.endpoints[:last]
			break
		}
	}
	p.identity.endpointCount--
	pt.releasePeer(p)
}

// releasePeer forgets a peer that has no endpoint, is not allowed, and is not merged: strangers
// must not make the worker grow. An identity to which the application has created endpoints is
// kept for a while, for its next number (maxIdlePeers).
func (pt *peerTable) releasePeer(p *peer) {
	if len(p.endpoints) > 0 || p.allowed || p.mergedInto != nil {
		return
	}
	p.endpoints = nil
	k := p.identity
	k.remove(p)
	if len(k.peers) > 0 || k.endpointCount > 0 || pt.byUUID[k.uuid] != k {
		return
	}
	if k.nextSN == 0 {
		delete(pt.byUUID, k.uuid)
		return
	}
	if k.idle {
		return
	}
	k.idle = true
	pt.idlePeers = append(pt.idlePeers, k)
	if len(pt.idlePeers) <= maxIdlePeers {
		return
	}
	// The list is in the order in which the identities became idle.
	oldest := pt.idlePeers[0]
	pt.idlePeers = slices.Delete(pt.idlePeers, 0, 1)
	oldest.idle = false
	if len(oldest.peers) == 0 && pt.byUUID[oldest.uuid] == oldest {
		delete(pt.byUUID, oldest.uuid)
	}
}

// entryID identifies an entry of an address: a transport, a device, and an interface of the
// device. It does not cover attributes, which peers may round. It is a hash for which peers
// cannot choose collisions.
type entryID uint64

// maxEntries bounds the entries that are remembered of a peer. An address has at most as many
// entries as C UCX has resources.
const maxEntries = 128

// entrySeed is the seed of all entryIDs. It is shared by all workers, because memory rights go
// beyond a worker.
var entrySeed = maphash.MakeSeed()

// idOf returns the entryID of an entry.
func idOf(t proto.TransportID, dev, iface []byte) entryID {
	var h maphash.Hash
	h.SetSeed(entrySeed)
	var head [6]byte
	binary.LittleEndian.PutUint16(head[:], uint16(t))
	binary.LittleEndian.PutUint32(head[2:], uint32(len(dev)))
	h.Write(head[:])
	h.Write(dev)
	h.Write(iface)
	return entryID(h.Sum64())
}

// entriesOf returns the entries of an address, at most maxEntries.
func entriesOf(addr *proto.WorkerAddress) []entryID {
	list := make([]entryID, 0, addr.NumIfaces())
	addr.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
		list = append(list, idOf(f.Transport, d.Addr, f.Addr))
		return len(list) < maxEntries
	})
	return list
}

// shares reports whether two lists have an entry in common.
func shares(a, b []entryID) bool {
	return slices.ContainsFunc(a, func(e entryID) bool { return slices.Contains(b, e) })
}

// contains reports whether all has every entry of part.
func contains(all, part []entryID) bool {
	return !slices.ContainsFunc(part, func(e entryID) bool { return !slices.Contains(all, e) })
}

// destination describes where an endpoint leads.
type destination struct {
	address     *proto.WorkerAddress // the address that the lanes were chosen from
	reasons     uint64               // digest of the reasons for the choice
	lanes       []entryID            // the entry of the address that each lane leads to
	scopes      []uct.Scope          // the peer, as identified by the domains of memoryRights.scopers
	reversePath bool                 // the endpoint leads only over the requester's connection (reverse_path.go)
}

// destinationOf describes the lanes that were chosen for an address. Endpoints that are made one
// after the other toward a peer share the destination.
func (pt *peerTable) destinationOf(addr *proto.WorkerAddress, lanes []proto.Lane, why uint64) *destination {
	w := pt.w
	list := make([]entryID, len(lanes))
	for k := range lanes {
		dev, f := addr.Entry(lanes[k].Remote)
		list[k] = idOf(f.Transport, dev.Addr, f.Addr)
	}
	if last := pt.lastDestination; last == nil || last.address != addr || last.reasons != why || !slices.Equal(last.lanes, list) {
		pt.lastDestination = &destination{address: addr, reasons: why, lanes: list, scopes: w.rights.scopesOf(addr)}
	}
	return pt.lastDestination
}

// leadsTo reports whether an address has all entries that the endpoint's lanes lead to.
func (pt *peerTable) leadsTo(ep *Endpoint, addr *proto.WorkerAddress) bool {
	return !ep.dest.reversePath && contains(entriesOf(addr), ep.dest.lanes)
}
