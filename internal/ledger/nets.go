package ledger

import (
	"net/netip"
	"sync/atomic"
)

// One stranger may have many addresses: whoever has a line at home gets a /56 of
// IPv6, which is 256 sources. So connections are counted by network as well.

// netLevels is the number of networks that a source is counted in.
const netLevels = 2

// Nets returns the networks that a source is part of, the narrower first; ok is false
// for users of this machine and others that have none.
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

// network is the sum of the sources in it.
type network struct {
	level int // 0: of sources, else of networks of the level before
	open  int // accounts in it; under the lock of the book
	conns atomic.Int64
}

// join counts an account in its networks, part ends that. The book is locked.
func (a *Account) join() {
	nets, ok := a.source.Nets()
	if !ok {
		return
	}
	if book.nets == nil {
		book.nets = make(map[netip.Prefix]*network)
	}
	for i, p := range nets {
		n := book.nets[p]
		if n == nil {
			n = &network{level: i}
			book.nets[p] = n
		}
		n.open++
		a.nets[i] = n
	}
}

func (a *Account) part() {
	nets, ok := a.source.Nets()
	if !ok {
		return
	}
	for i, p := range nets {
		if a.nets[i].open--; a.nets[i].open == 0 {
			delete(book.nets, p)
		}
	}
	if len(book.nets) == 0 {
		book.nets = nil // a map does not shrink
	}
}

// Crowd is who has the most connections of the process: a source, a network, or, where
// nobody has many, all together.
type Crowd struct {
	Source Source       // if Net is not valid
	Net    netip.Prefix // valid if it is a network
	Conns  int64        // how many when it was looked; 0: it is all together

	now   *atomic.Int64
	alike []*Account // sources that had about as many
}

// mostAlike bounds those.
const mostAlike = 64

// Everybody reports whether the crowd is no one in particular.
func (c *Crowd) Everybody() bool { return c.Conns == 0 }

// Stands reports whether the crowd has still about as many connections as when it was
// looked for. If it has not, but another source that had about as many then, that one is
// the crowd from now on: looking for it takes long, and sources with a few connections
// too many have soon lost them.
func (c *Crowd) Stands() bool {
	for c.now != nil && c.now.Load() <= c.least() {
		if len(c.alike) == 0 {
			return false
		}
		a := c.alike[0]
		c.alike = c.alike[1:]
		c.Source, c.now = a.source, &a.amounts[Conns]
	}
	return c.now != nil
}

// least is what the crowd must have more than to stand.
func (c *Crowd) least() int64 { return c.Conns - max(c.Conns/8, 1) }

// Crowded looks for the crowd. One with few connections or less is none. A network
// weighs as much as one source with as many connections divided by few, as there may be
// many in it who have nothing to do with each other; a network of networks again so. And
// it has to have half of all: where honest peers are neighbours and strangers are not,
// they have not become too many. It looks at each account, twice.
func Crowded(few int) Crowd {
	book.Lock()
	defer book.Unlock()
	most, weight := Crowd{}, int64(0)
	few64, share := int64(few), int64(max(few, 1))
	for _, a := range book.accounts {
		if n := a.Of(Conns); n > few64 && n > weight {
			most, weight = Crowd{Source: a.source, Conns: n, now: &a.amounts[Conns]}, n
		}
	}
	for p, net := range book.nets {
		n := net.conns.Load()
		w := n
		for range net.level + 1 {
			w /= share
		}
		if n > few64 && 2*n >= Total(Conns) && w > weight {
			most, weight = Crowd{Net: p, Conns: n, now: &net.conns}, w
		}
	}
	if most.now == nil || most.Net.IsValid() {
		return most
	}
	for _, a := range book.accounts {
		if len(most.alike) == mostAlike {
			break
		}
		if n := &a.amounts[Conns]; n != most.now && n.Load() > most.least() {
			most.alike = append(most.alike, a)
		}
	}
	return most
}
