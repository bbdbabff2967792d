package ucp

import (
	"cmp"
	"net/netip"
	"slices"

	"github.com/ucx-go/ucx/internal/ledger"
)

// PeerStats is what peers of one source make a worker hold. A source is whoever pays:
// a user of this machine, an address, or a network of IPv6 addresses. All peers that
// come through shared memory are one, as nothing tells them apart.
type PeerStats struct {
	Addr  netip.Addr // where they connect from: the address, or the first of the /64; not valid for users of this machine and for shared memory
	UID   int        // the user, on this machine, -1 where unknown
	Known bool       // the application has an endpoint toward the source, on some worker of the process

	Connections int // that have made the worker hold something; one that is over counts as long as something is held for it
	Paused      int // of those, how many are not read until they read themselves, or the application reads their streams
	Bytes       int // memory of messages without a receive
	Owed        int // memory of answers that they have not read (Stats.OwedBytes)
	Endpoints   int // opened by them and not by the application

	// Refused says how often something was refused to the source, by all workers of the
	// process, since it has been connected without interruption: by reason, those that
	// are 0 left out.
	Refused map[string]uint64
}

// Peers says what peers make the worker hold, by who they are: those that hold most
// come first. Who has sent only what was received at once does not appear, unless
// something was refused to him, by this worker or another one, or by a transport, which
// refuses connections. The result is the caller's. Like all methods it belongs to the
// worker's goroutine; it takes as long as there are connections, and sources in the
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
