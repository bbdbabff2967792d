//go:build linux

package flow

import "slices"

// Accounting of passive endpoints by address. The peers at one address may make endpoints up to the
// limits, but not at the cost of other addresses. The endpoints of each address are counted, and
// when there is no room for another address, the address with most endpoints loses one. An attacker
// that forges addresses has any number of addresses: only the limits hold against it. A CREQ costs
// its sender nothing, so the table is not searched for each CREQ: the candidates for eviction are
// kept in order (ranking.go), addresses with a large part of all endpoints are few, and so are
// embryos.

// burden is the account of an address: the endpoints that its peers have made and the application
// has not taken.
type burden struct {
	addr [24]byte
	load
	ranking ranking
}

type load struct {
	passive int
	embryos int // of the passive endpoints
}

// tally counts the addresses that have a given number of something, so that the largest number is
// known without a search.
type tally struct {
	with []int32 // by number: how many addresses have it
	most int     // largest number that an address has
}

// change moves an address from one number to another.
func (t *tally) change(from, to int) {
	for len(t.with) <= max(from, to) {
		t.with = append(t.with, 0)
	}
	t.with[from]--
	t.with[to]++
	t.most = max(t.most, to)
	for t.most > 0 && t.with[t.most] == 0 {
		t.most--
	}
}

// charge charges a new embryo to its address.
func (ps *peers) charge(e *Endpoint, addr [24]byte) {
	b := ps.burdens[addr]
	if b == nil {
		b = &burden{addr: addr, ranking: ranking{which: atHome}}
		ps.burdens[addr] = b
	}
	e.burden = b
	ps.embryosOf.change(b.embryos, b.embryos+1)
	ps.passiveOf.change(b.passive, b.passive+1)
	b.embryos++
	if b.passive++; b.passive == ps.large {
		ps.heavy = append(ps.heavy, b)
	}
	ps.passive++
	ps.ranking.push(e)
	b.ranking.push(e)
}

// hatched counts an embryo less: its peer has answered.
func (ps *peers) hatched(b *burden) {
	ps.embryosOf.change(b.embryos, b.embryos-1)
	b.embryos--
}

// discharge removes an endpoint that is not passive any more from its account. The endpoint must not
// be an embryo.
func (ps *peers) discharge(e *Endpoint) {
	b := e.burden
	e.burden = nil
	ps.passiveOf.change(b.passive, b.passive-1)
	if b.passive == ps.large {
		ps.heavy = slices.DeleteFunc(ps.heavy, func(o *burden) bool { return o == b })
	}
	b.passive--
	ps.passive--
	ps.ranking.remove(e)
	b.ranking.remove(e)
	if b.passive == 0 {
		delete(ps.burdens, b.addr)
	}
}

// has returns the counts of an address.
func (ps *peers) has(addr [24]byte) load {
	if b := ps.burdens[addr]; b != nil {
		return b.load
	}
	return load{}
}
