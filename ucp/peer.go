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

// A uuid is published: anybody can say it is his. What a worker remembers is
// therefore not of a uuid but of who goes by it, and those are told apart by where
// they are. Addresses that have an entry in common are of one peer. The application
// vouches for the addresses that it gives; of those that come in requests only what
// the kernel bears out is looked at (admit_address.go).

// peerTable is the peers that a worker knows.
type peerTable struct {
	w               *Worker
	byUUID          map[uint64]*identity
	idlePeers       []*identity  // without an endpoint toward them
	selfPeer        peer         // the worker itself, of which only the address is kept
	lastDestination *destination // of the endpoint made last
}

// identity is all that goes by one uuid.
type identity struct {
	uuid          uint64
	nextSN        uint16  // of the endpoint that the application creates next
	idle          bool    // is in Worker.idlePeers
	endpointCount int     // toward any of the peers
	peers         []*peer // mostly one; of those that the application does not trust at most maxUntrustedPeers
}

// maxUntrustedPeers is how many go by a uuid, without that the application vouches for them,
// who are told apart by where they are. All others get endpoints as well, but none that
// the application could be given. It makes looking for one of them short.
const maxUntrustedPeers = 64

// peer is what a worker remembers about another worker. The k-th endpoint that
// one side creates toward the other is paired with the k-th of the other side:
// both number them from 0 (ucp_ep_match in src/ucp/wireup/ep_match.c).
type peer struct {
	*identity
	entries   []entryID
	address   *proto.WorkerAddress // as it came last, from the application if it did
	given     bool                 // the application has made an endpoint
	allowed   bool                 // it has said that it will, or that the peer may
	contested bool                 // somebody else says that he is this one, too
	endpoints []*Endpoint          // toward this one

	// Endpoints that wait for their counterpart: created here and not yet named
	// by the peer, or opened by the peer and not yet created here.
	unmatched map[uint16]*Endpoint

	mergedInto *peer   // it turned out to be this one
	lastSource *source // that spoke last for the peer

	extra *peerExtra // nil for most
}

// peerExtra is what is remembered of few peers.
type peerExtra struct {
	migratedAddr netip.Addr   // where else it connects from (migrated peer)
	certificate  *certificate // by whose certificate it was heard first, if it had one
}

// certificate is by whose certificate the peer was heard first, nil if it had none.
func (p *peer) certificate() *certificate {
	if p.extra == nil {
		return nil
	}
	return p.extra.certificate
}

// ensureExtra returns what is remembered besides, to be changed.
func (p *peer) ensureExtra() *peerExtra {
	if p.extra == nil {
		p.extra = new(peerExtra)
	}
	return p.extra
}

// maxIdlePeers is how many peers a worker remembers toward which it has no endpoint
// any more. An endpoint to one that was forgotten has the number 0 again, so that
// both sides may have an endpoint more than they would need.
const maxIdlePeers = 1024

// trusted reports whether the application believes in the peer.
func (p *peer) trusted() bool { return p.given || p.allowed }

// canonical is the peer that p turned out to be.
func (p *peer) canonical() *peer {
	for p != nil && p.mergedInto != nil {
		p = p.mergedInto
	}
	return p
}

// findPeer returns who goes by the uuid of an address and has one of its entries, first
// of all those that the application vouches for; nil if nobody does.
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

// trustedPeer returns the first of a uuid that the application vouches for.
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

// peerOf returns what is known about the worker of an address that the application
// gave. Who goes by its uuid and is nowhere else is this one; somebody who has named
// other places beside it may be another.
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

// newUntrustedPeer returns a new peer: who says in a request that he is that.
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

// identityOf returns all that goes by a uuid, of which there will be something.
func (pt *peerTable) identityOf(uuid uint64) *identity {
	k := pt.byUUID[uuid]
	if k == nil {
		k = &identity{uuid: uuid}
		pt.byUUID[uuid] = k
	}
	return k
}

// remove forgets who goes by the uuid.
func (k *identity) remove(p *peer) {
	k.peers = slices.DeleteFunc(k.peers, func(o *peer) bool { return o == p })
}

// keepAddress keeps an address: an interface gets a new one when its ring is
// replaced. Endpoints share it.
func (p *peer) keepAddress(addr *proto.WorkerAddress) *proto.WorkerAddress {
	p.address = p.shareAddress(addr)
	return p.address
}

// shareAddress returns the address that is kept if it is the same, or a copy.
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

// mergePeers is told that q is p, by evidence that q cannot make up.
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

// takeSN returns the number of the next endpoint created here. It stays at the
// last value, which matches nothing.
func (k *identity) takeSN() uint16 {
	sn := k.nextSN
	if sn != proto.ConnSNNone {
		k.nextSN++
	}
	return sn
}

// returnSN takes back the number just taken: its endpoint could not be made.
func (k *identity) returnSN(sn uint16) { k.nextSN = sn }

// setPeer notes whose endpoint it is.
func (pt *peerTable) setPeer(ep *Endpoint, p *peer) {
	ep.peer = p
	p.endpoints = append(p.endpoints, ep)
	p.identity.endpointCount++
}

// hasEndpointTo reports whether an endpoint that was made here leads to that of the peer's which
// has an id.
func (p *peer) hasEndpointTo(id proto.EndpointID) bool {
	return p != nil && slices.ContainsFunc(p.endpoints, func(ep *Endpoint) bool {
		return ep.remoteID == id && ep.err == nil && ep.life.Mine() && ep.state&epUnconfirmed == 0
	})
}

// takeUnmatched returns the endpoint the peer opened under this number, if any, which
// becomes the one created here with an address. It is the peer's only if all its
// lanes lead where that address does.
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

// addUnmatched remembers an endpoint until the peer names its counterpart.
func (p *peer) addUnmatched(ep *Endpoint) {
	if ep.connSN == proto.ConnSNNone {
		return
	}
	if p.unmatched == nil {
		p.unmatched = make(map[uint16]*Endpoint)
	}
	p.unmatched[ep.connSN] = ep
}

// dropUnmatched drops an endpoint that is matched or closed.
func (p *peer) dropUnmatched(ep *Endpoint) {
	if p.unmatched[ep.connSN] == ep {
		p.removeUnmatched(ep.connSN)
	}
}

// removeUnmatched drops the endpoint of a number. Most peers have no other that waits, and the map
// is as large as all the rest of one.
func (p *peer) removeUnmatched(sn uint16) {
	if delete(p.unmatched, sn); len(p.unmatched) == 0 {
		p.unmatched = nil
	}
}

// endpointClosed is told that an endpoint of the peer is closed.
func (pt *peerTable) endpointClosed(p *peer, ep *Endpoint) {
	last := len(p.endpoints) - 1
	for k := last; k >= 0; k-- { // those that give way are the newest
		if p.endpoints[k] == ep {
			p.endpoints[k], p.endpoints[last] = p.endpoints[last], nil
			p.endpoints = p.endpoints[:last]
			break
		}
	}
	p.identity.endpointCount--
	pt.releasePeer(p)
}

// releasePeer drops what is known about a peer to which nothing leads any more:
// strangers must not make the worker grow. What goes by a uuid to which the
// application has created endpoints is kept for a while, for the next number.
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
	// The order is that in which they became idle first.
	oldest := pt.idlePeers[0]
	pt.idlePeers = slices.Delete(pt.idlePeers, 0, 1)
	oldest.idle = false
	if len(oldest.peers) == 0 && pt.byUUID[oldest.uuid] == oldest {
		delete(pt.byUUID, oldest.uuid)
	}
}

// entryID stands for an entry of an address: a transport, a device and an interface
// there. Attributes, which peers may round, do not matter. It is a hash that peers
// cannot aim at.
type entryID uint64

// maxEntries bounds the entries that are remembered of a peer. Addresses have as
// many at most, as C UCX has resources.
const maxEntries = 128

// entrySeed is that of all entryIDs: memory rights go beyond a worker.
var entrySeed = maphash.MakeSeed()

// idOf returns the ID of an entry.
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

// entriesOf lists the entries of an address.
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

// contains reports whether a list has all of another one.
func contains(all, part []entryID) bool {
	return !slices.ContainsFunc(part, func(e entryID) bool { return !slices.Contains(all, e) })
}

// destination is where an endpoint leads.
type destination struct {
	address     *proto.WorkerAddress // that its lanes were chosen from
	reasons     uint64               // digest of the reasons for the choice
	lanes       []entryID            // to which entry of the address each leads
	scopes      []uct.Scope          // the peer, as the domains of Worker.scopers know it
	reversePath bool                 // nowhere but to who has asked (reverse_path.go)
}

// destinationOf describes the lanes that were chosen for an address. Endpoints that are
// made one after the other toward a peer share it.
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

// leadsTo reports whether an address has all that the endpoint's lanes lead to.
func (pt *peerTable) leadsTo(ep *Endpoint, addr *proto.WorkerAddress) bool {
	return !ep.dest.reversePath && contains(entriesOf(addr), ep.dest.lanes)
}
