package ucp

import (
	"cmp"
	"crypto/tls"
	"net/netip"
	"slices"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/uct"
)

// PeerInfo identifies a peer by what the kernel or TLS knows, whatever the peer claims.
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

// peerInfo converts what a transport knows of a peer.
func peerInfo(i uct.SourceInfo) PeerInfo {
	return PeerInfo{Addr: i.Addr, Local: i.Local, User: PeerUser(i.User), TLS: i.TLS}
}

// peerInfo identifies the peer of an endpoint: by the connection of the peer's last wireup
// message, or else by the address that the endpoint leads to.
func (pt *peerTable) peerInfo(ep *Endpoint) PeerInfo {
	nobody := PeerInfo{User: PeerUser{UID: -1, GID: -1, PID: -1}}
	if p := ep.peer.canonical(); p != nil && p.lastSource != nil {
		if l := p.lastSource.locator(); l != nil {
			return peerInfo(l.SourceInfo())
		}
	}
	nobody.Local = ep.process != 0
	if ep.dest == nil {
		return nobody
	}
	for k := range ep.lanes {
		a, ok := ep.lanes[k].iface.uct.(uct.AddrLocator)
		if !ok {
			continue
		}
		ep.dest.address.Ifaces(func(_ int, d *proto.AddressDevice, f *proto.AddressIface) bool {
			if idOf(f.Transport, d.Addr, f.Addr) != ep.dest.lanes[k] {
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

// PeerStats is what the peers of one source make a worker hold. A source is the unit of
// accounting: a user of this machine, an IP address, or an IPv6 /64 network. All peers that
// come through shared memory are one source, as they cannot be told apart.
type PeerStats struct {
	Addr  netip.Addr // the address that the peers connect from, or the first address of its /64; not valid for users of this machine and for shared memory
	UID   int        // the user, on this machine, -1 where unknown
	Known bool       // the application has an endpoint to the source, on some worker of the process

	Connections int // connections that made the worker hold something; a closed one counts while something is held for it
	Paused      int // connections of those that are not read until the peer reads its replies, or the application reads the peer's streams
	Bytes       int // memory of messages without a receive
	Owed        int // bytes of replies that the peers have not read (Stats.OwedBytes)
	Endpoints   int // endpoints opened by the peers and not by the application

	// Refused counts, by reason, what all workers of the process have refused to the source
	// since it has been connected without interruption. Counts of 0 are left out.
	Refused map[string]uint64
}

// Peers returns what peers make the worker hold, by source, in descending order. A source
// that has sent only messages that were received at once does not appear, unless something
// was refused to it: by this worker, by another one, or by a transport that refused
// connections. The caller owns the result. Like all methods Peers belongs to the worker's
// goroutine. Its run time grows with the number of connections, and of sources in the
// process.
func (w *Worker) Peers() []PeerStats {
	w.owner.acquireRead()
	defer w.owner.releaseRead()
	w.accounts.bindAccounts()
	list := make([]PeerStats, 0, len(w.accounts.byLedger))
	listed := make(map[ledger.Source]bool, len(w.accounts.byLedger))
	for a, p := range w.accounts.byLedger {
		sum := a.Snapshot()
		s := peerStats(&sum)
		s.Bytes, s.Owed, s.Endpoints = p.held, p.replyBytes, p.opened
		for c := p.sources; c != nil; c = c.next {
			if c == &w.accounts.unnamed {
				continue
			}
			s.Connections++
			if c.paused || c.stoppedStreams > 0 {
				s.Paused++
			}
		}
		listed[sum.Source] = true
		if sum.Source == ledger.Shared && s.Bytes == 0 && s.Owed == 0 && s.Endpoints == 0 && s.Connections == 0 && s.Refused == nil {
			continue
		}
		list = append(list, s)
	}
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

// peerStats returns what the account of a source contributes to PeerStats.
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
