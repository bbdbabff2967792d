package ledger

import (
	"cmp"
	"net/netip"
	"slices"
	"sync/atomic"
)

// An untrusted peer may have many addresses: a home connection gets a /56 of IPv6, which is 256
// sources. So connections are also counted by network.

// netLevels is the number of networks that a source is counted in.
const netLevels = 2

// Nets returns the networks that contain a source, the narrower first; ok is false for users of
// this machine and for other sources without networks.
func (s Source) Nets() (nets [netLevels]netip.Prefix, ok bool) {
	a := s.Addr
	if s.UID >= 0 || !a.IsValid() || a.IsLoopback() || a.Zone() != "" {
		return nets, false
	}
	bits := [netLevels]int{24, 16}
	if a.Is6() {
		bits = [netLevels]int{48, 32}
	}
	for i, b := range bits {
		nets[i], _ = a.Prefix(b)
	}
	return nets, true
}

// network holds the sums over the sources in one network.
type network struct {
	level int // 0 for the narrowest networks, which contain sources; 1 for networks of those
	open  int // accounts in the network; guarded by the book
	conns atomic.Int64
}

// join counts an account in its networks. The caller has locked the book.
func (a *Account) join() {
	b := process.Get()
	nets, ok := a.source.Nets()
	if !ok {
		return
	}
	if b.nets == nil {
		b.nets = make(map[netip.Prefix]*network)
	}
	for i, p := range nets {
		n := b.nets[p]
		if n == nil {
			n = &network{level: i}
			b.nets[p] = n
		}
		n.open++
		a.nets[i] = n
	}
}

func (a *Account) leave() {
	b := process.Get()
	nets, ok := a.source.Nets()
	if !ok {
		return
	}
	for i, p := range nets {
		if a.nets[i].open--; a.nets[i].open == 0 {
			delete(b.nets, p)
		}
	}
	if len(b.nets) == 0 {
		b.nets = nil // deleting entries does not free a map's memory
	}
}

// LargestGroup is the source or the network that has the most connections of the process. If none
// has many connections, the group is all sources together.
type LargestGroup struct {
	Source Source       // the group, if Net is not valid
	Net    netip.Prefix // the group if it is a network, otherwise not valid
	Conns  int64        // connections when FindLargestGroup found it; 0 for all sources together

	now     *atomic.Int64
	similar []*Account // sources that had about as many connections, in the order of sources
}

// maxSimilar bounds LargestGroup.similar.
const maxSimilar = 64

// AllSources reports whether the group is all sources together.
func (c *LargestGroup) AllSources() bool { return c.Conns == 0 }

// IsCurrent reports whether the group still has about as many connections as when FindLargestGroup
// found it. If it has fewer, IsCurrent first replaces it by another source that had about as many
// and still has them: a new search takes long, and sources with a few connections too many soon
// close them.
func (c *LargestGroup) IsCurrent() bool {
	for c.now != nil && c.now.Load() <= c.least() {
		if len(c.similar) == 0 {
			return false
		}
		a := c.similar[0]
		c.similar = c.similar[1:]
		c.Source, c.now = a.source, &a.amounts[Conns]
	}
	return c.now != nil
}

// least returns the number of connections that the group must exceed for IsCurrent to return true.
func (c *LargestGroup) least() int64 { return c.Conns - max(c.Conns/8, 1) }

// NetWeight returns the weight of a network with n of total connections in a comparison of networks
// with sources, whose weight is their number of connections. level is the index of the network in the
// result of Source.Nets. The number is divided by few, because a network may hold many unrelated
// sources; for a network of networks it is divided twice. A network that has less than half of all
// connections has no weight: if honest peers share a network and attackers do not, the honest peers
// would lose their connections.
func NetWeight(n, total, level, few int) int {
	if 2*n < total {
		return 0
	}
	for range level + 1 {
		n /= max(few, 1)
	}
	return n
}

// FindLargestGroup searches for the source or the network with the largest weight (NetWeight). Only
// sources and networks with more than few connections count. Of several with the same weight it
// returns a source rather than a network, then the narrower network, then the first in the order of
// addresses: all workers of the process must find the same. FindLargestGroup reads each account
// twice.
func FindLargestGroup(few int) LargestGroup {
	b := process.Get()
	b.Lock()
	defer b.Unlock()
	most, weight := LargestGroup{}, int64(0)
	few64, total := int64(few), int(Total(Conns))
	for _, a := range b.accounts {
		if n := a.Of(Conns); n > few64 && (n > weight || n == weight && a.source.compare(most.Source) < 0) {
			most, weight = LargestGroup{Source: a.source, Conns: n, now: &a.amounts[Conns]}, n
		}
	}
	level := 0 // of most.Net
	for p, net := range b.nets {
		n := net.conns.Load()
		w := int64(NetWeight(int(n), total, net.level, few))
		first := func() bool { return cmp.Or(cmp.Compare(net.level, level), p.Addr().Compare(most.Net.Addr())) < 0 }
		if n > few64 && (w > weight || w == weight && most.Net.IsValid() && first()) {
			most, weight, level = LargestGroup{Net: p, Conns: n, now: &net.conns}, w, net.level
		}
	}
	if most.now == nil || most.Net.IsValid() {
		return most
	}
	for _, a := range b.accounts {
		if n := &a.amounts[Conns]; n != most.now && n.Load() > most.least() {
			most.addSimilar(a)
		}
	}
	return most
}

// addSimilar adds a source to similar, which has the first maxSimilar ones in the order of sources.
func (c *LargestGroup) addSimilar(a *Account) {
	i, _ := slices.BinarySearchFunc(c.similar, a, func(a, b *Account) int { return a.source.compare(b.source) })
	if i == maxSimilar {
		return
	}
	if len(c.similar) == maxSimilar {
		c.similar = c.similar[:maxSimilar-1]
	}
	c.similar = slices.Insert(c.similar, i, a)
}
