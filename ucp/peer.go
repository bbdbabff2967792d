package ucp

import (
	"cmp"
	"crypto/tls"
	"net/netip"
	"slices"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/account"
	"github.com/ucx-go/ucx/ucp/internal/identity"
	"github.com/ucx-go/ucx/uct"
)

// The peers that a worker knows are in a table of package identity.

// peerTable holds the peers that a worker knows.
type peerTable struct {
	identity.Table[*peerEnd]
	w               *Worker
	self            peer         // the worker itself, of which only the address is kept
	lastDestination *destination // destination of the endpoint made last
}

// peer is what a worker remembers about another worker.
type peer = identity.Peer[*peerEnd]

// peerEnd is an Endpoint as package identity sees it.
type peerEnd Endpoint

// Number implements identity.Endpoint.
func (e *peerEnd) Number() uint16 { return e.connSN }

// Counterpart implements identity.Endpoint.
func (e *peerEnd) Counterpart() (id proto.EndpointID, confirmed bool) {
	return e.remoteID, e.state&epUnconfirmed == 0
}

// Claimed implements identity.Endpoint.
func (e *peerEnd) Claimed() bool { return e.life.EverHeld() }

// Failed implements identity.Endpoint.
func (e *peerEnd) Failed() bool { return e.err != nil }

// start makes the table.
func (pt *peerTable) start() { pt.Init(func(e *peerEnd, p *peer) { e.peer = p }) }

// anyEndpoint reports whether f reports true for an endpoint toward the peer.
func anyEndpoint(p *peer, f func(*Endpoint) bool) bool {
	return slices.ContainsFunc(p.Endpoints(), func(e *peerEnd) bool { return f((*Endpoint)(e)) })
}

// claim returns the endpoint that a peer opened under a number, nil if there is none. The endpoint
// becomes the one that the application creates with an address. It is the peer's only if all its
// lanes lead to entries of that address. An endpoint that the peer has released, and whose message
// "removed" still waits for room, is not given out.
func (pt *peerTable) claim(p *peer, sn uint16, addr *proto.WorkerAddress) *Endpoint {
	e, _ := p.Claim(sn, func(e *peerEnd) bool {
		return e.life.Claimable() && pt.leadsTo((*Endpoint)(e), addr)
	})
	ep := (*Endpoint)(e)
	if ep == nil {
		return nil
	}
	if from := pt.w.accounts.uncharge(ep); from != nil {
		pt.w.accounts.bindAccount(ep, from.Account().Ledger().Source())
	}
	return ep
}

// destination describes where an endpoint leads.
type destination struct {
	address     *proto.WorkerAddress // the address that the lanes were chosen from
	reasons     uint64               // digest of the reasons for the choice
	lanes       []identity.EntryID   // the entry of the address that each lane leads to
	scopes      []uct.Scope          // the peer, as identified by the domains of memoryRights.scopers
	reversePath bool                 // the endpoint leads only over the requester's connection (admit.go)
}

// destinationOf describes the lanes that were chosen for an address. Endpoints that are made one
// after the other toward a peer share the destination.
func (pt *peerTable) destinationOf(addr *proto.WorkerAddress, lanes []proto.Lane, why uint64) *destination {
	list := make([]identity.EntryID, len(lanes))
	for k := range lanes {
		dev, f := addr.Entry(lanes[k].Remote)
		list[k] = identity.EntryOf(f.Transport, dev.Addr, f.Addr)
	}
	if last := pt.lastDestination; last == nil || last.address != addr || last.reasons != why || !slices.Equal(last.lanes, list) {
		pt.lastDestination = &destination{address: addr, reasons: why, lanes: list, scopes: pt.w.rights.scopesOf(addr)}
	}
	return pt.lastDestination
}

// leadsTo reports whether an address has all entries that the endpoint's lanes lead to.
func (pt *peerTable) leadsTo(ep *Endpoint, addr *proto.WorkerAddress) bool {
	return !ep.dest.reversePath && identity.Contains(identity.EntriesOf(addr), ep.dest.lanes)
}

// PeerInfo identifies a peer by information from the kernel or TLS, not by claims of the peer.
type PeerInfo struct {
	// Addr is the address that the peer's connection comes from. If the peer has not
	// connected, it is the address that the endpoint connects to. It is not valid without
	// addresses, as in shared memory.
	Addr netip.AddrPort

	// Local reports whether the peer is on this machine and in this network namespace.
	Local bool

	// User is the user that runs a peer on this machine, as far as the kernel knows it.
	User PeerUser

	// TLS describes the peer's TLS connection, nil without TLS.
	TLS *tls.ConnectionState
}

// PeerUser is a user of this machine.
type PeerUser struct {
	Known         bool // if false the other fields mean nothing
	UID, GID, PID int  // GID and PID are -1 where not known
}

// peerInfo converts a transport's information about a peer.
func peerInfo(i uct.SourceInfo) PeerInfo {
	return PeerInfo{Addr: i.Addr, Local: i.Local, User: PeerUser(i.User), TLS: i.TLS}
}

// peerInfo identifies the peer of an endpoint: by the connection of the peer's last wireup
// message, or else by the address that the endpoint leads to.
func (pt *peerTable) peerInfo(ep *Endpoint) PeerInfo {
	nobody := PeerInfo{User: PeerUser{UID: -1, GID: -1, PID: -1}}
	if p := ep.peer.Canonical(); p != nil && p.LastSource != nil {
		if l := p.LastSource.(*source).locator(); l != nil {
			return peerInfo(l.SourceInfo())
		}
	}
	nobody.Local = ep.process != 0
	if ep.dest == nil {
		return nobody
	}
	for k := range ep.lanes {
		a, ok := ep.lanes[k].iface.uct.(uct.NetworkIface)
		if !ok {
			continue
		}
		ep.dest.address.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
			if identity.EntryOf(f.Transport, d.Addr, f.Addr) != ep.dest.lanes[k] {
				return true
			}
			if addr, here, err := a.PeerAddr(uct.ReachableParams{DeviceAddr: d.Addr, IfaceAddr: f.Addr}); err == nil {
				nobody.Addr, nobody.Local = addr, here
			}
			return false
		})
		return nobody
	}
	return nobody
}

// accept returns a function that asks the application whether to accept a connection of a peer,
// nil if the application accepts all.
func (ad *admission) accept() func(uct.SourceInfo) bool {
	w := ad.w
	fn := w.params.Accept
	if fn == nil {
		return nil
	}
	return func(i uct.SourceInfo) (welcome bool) {
		w.run(func() { welcome = fn(peerInfo(i)) })
		return welcome
	}
}

// PeerStats describes the resources of a worker that the peers of one source occupy. A source is
// the unit of accounting: a user of this machine, an IP address, or an IPv6 /64 network. All peers
// that come through shared memory are one source, as they cannot be told apart.
type PeerStats struct {
	Addr  netip.Addr // the address that the peers connect from, or the first address of its /64; not valid for users of this machine and for shared memory
	UID   int        // the user, on this machine, -1 where unknown
	Known bool       // the application has an endpoint to the source, on some worker of the process

	// Connections is the number of connections that occupy resources of the worker. A closed
	// connection counts until the resources are released.
	Connections int
	// Paused is the number of those connections that the worker does not read until the peer reads
	// its replies, or the application reads the peer's streams.
	Paused    int
	Bytes     int // bytes of memory for messages without a receive
	Owed      int // bytes of replies that the peers have not read (Stats.OwedBytes)
	Endpoints int // endpoints opened by the peers and not by the application

	// Refused counts, by reason, how often any worker of the process has refused something
	// to the source. The counts are dropped when the source has no connection left. Counts
	// of 0 are left out.
	Refused map[string]uint64
}

// Peers returns the resources of the worker that peers occupy, one entry for each source,
// the largest first. A source that has sent only messages that were received at once does
// not appear, unless this worker, another worker, or a transport that refused connections
// has refused something to the source. The caller owns the result. Like all methods Peers
// belongs to the worker's goroutine. Its run time grows with the number of connections,
// and of sources in the process.
func (w *Worker) Peers() []PeerStats {
	w.owner.acquireRead()
	defer w.owner.releaseRead()
	w.accounts.Bind()
	list := make([]PeerStats, 0, w.accounts.Len())
	listed := make(map[ledger.Source]bool, w.accounts.Len())
	w.accounts.Each(func(p *account.Account) {
		sum := p.Ledger().Snapshot()
		s := peerStats(&sum)
		s.Bytes, s.Owed, s.Endpoints = p.Held(), p.ReplyBytes(), p.Opened()
		p.EachOwner(func(o account.Owner) {
			if c := o.(*source); c != &w.accounts.unnamed {
				s.Connections++
				if c.Paused() || c.stoppedStreams > 0 {
					s.Paused++
				}
			}
		})
		listed[sum.Source] = true
		if sum.Source != ledger.Shared || s.Bytes != 0 || s.Owed != 0 || s.Endpoints != 0 || s.Connections != 0 || s.Refused != nil {
			list = append(list, s)
		}
	})
	for _, sum := range ledger.Accounts() {
		if s := peerStats(&sum); s.Refused != nil && !listed[sum.Source] {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b PeerStats) int {
		return cmp.Or(cmp.Compare(b.Bytes+b.Owed, a.Bytes+a.Owed), cmp.Compare(b.Endpoints, a.Endpoints),
			a.Addr.Compare(b.Addr), cmp.Compare(a.UID, b.UID))
	})
	return list
}

// peerStats returns the part of PeerStats that the account of a source contains.
func peerStats(sum *ledger.Snapshot) PeerStats {
	s := PeerStats{Addr: sum.Source.Addr, UID: sum.Source.UID, Known: sum.Amounts[ledger.Known] > 0}
	for r, n := range sum.Refused {
		if n > 0 {
			if s.Refused == nil {
				s.Refused = make(map[string]uint64)
			}
			s.Refused[ledger.Reason(r).String()] = n
		}
	}
	return s
}
