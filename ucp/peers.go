package ucp

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/ucx-go/ucx/internal/ledger"
)

// PeerStats is what the peers of one source make a worker hold. A source is the unit of
// accounting: a user of this machine, an IP address, or an IPv6 /64 network. All peers that
// come through shared memory are one source, as they cannot be told apart.
type PeerStats struct {
	Addr  netip.Addr // the address they connect from, or the first address of its /64; not valid for users of this machine and for shared memory
	UID   int        // the user, on this machine, -1 where unknown
	Known bool       // the application has an endpoint to the source, on some worker of the process

	Connections int // connections that made the worker hold something; a closed one counts while something is held for it
	Paused      int // connections of those that are not read until the peer reads its replies, or the application reads the peer's streams
	Bytes       int // memory of messages without a receive
	Owed        int // bytes of replies that the peers have not read (Stats.OwedBytes)
	Endpoints   int // opened by them and not by the application

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
	w.look()
	defer w.unlook()
	w.tie()
	list := make([]PeerStats, 0, len(w.payers))
	listed := make(map[ledger.Source]bool, len(w.payers))
	for a, p := range w.payers {
		sum := a.Snapshot()
		s := peerStats(&sum)
		s.Bytes, s.Owed, s.Endpoints = p.held, p.owed, p.opened
		for c := p.sources; c != nil; c = c.next {
			if c == &w.unnamed {
				continue
			}
			s.Connections++
			if c.paused || c.stopped > 0 {
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

// peerStats is what the account of a source says.
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
