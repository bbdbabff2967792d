//go:build linux

package flow

import "slices"

// Accounting of passive endpoints, those made by peers and not taken by the application, by network
// address. The peers at one address may make endpoints up to the limits, but not at the cost of
// other addresses. The endpoints of each address are counted, and when there is no room for another
// address, the address with the most endpoints loses one. Against an attacker that forges
// addresses, and so has any number of them, only the limits help. A CREQ costs its sender nothing,
// so the table is not searched for each CREQ: the candidates for eviction are kept in order
// (ranking.go), addresses with a large part of all endpoints are few, and so are embryos (half-open
// endpoints).

// account is the account of a network address. It counts the endpoints that peers at the address
// have made and that the application has not taken.
type account struct {
	addr [24]byte
	load
	ranking ranking
}

// load is the number of passive endpoints of an address.
type load struct {
	passive int
	embryos int // number of passive endpoints that are embryos
}

// histogram counts the addresses by their number of endpoints of one kind, so that the largest number
// is known without a search.
type histogram struct {
	addresses []int32 // by number of endpoints: how many addresses have that number
	most      int     // the largest number of endpoints that an address has
}

// change moves an address from one number of endpoints to another.
func (t *histogram) change(from, to int) {
	for len(t.addresses) <= max(from, to) {
		t.addresses = append(t.addresses, 0)
	}
	t.addresses[from]--
	t.addresses[to]++
	t.most = max(t.most, to)
	for t.most > 0 && t.addresses[t.most] == 0 {
		t.most--
	}
}

// charge adds a new embryo to the account of its address.
func (ps *peers) charge(e *Endpoint, addr [24]byte) {
	b := ps.accounts[addr]
	if b == nil {
		b = &account{addr: addr, ranking: ranking{which: atHome}}
		ps.accounts[addr] = b
	}
	e.account = b
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

// hatched counts one embryo less for b, because the embryo's peer has answered.
func (ps *peers) hatched(b *account) {
	ps.embryosOf.change(b.embryos, b.embryos-1)
	b.embryos--
}

// discharge removes an endpoint that is not passive any more from its account. The endpoint must not
// be an embryo.
func (ps *peers) discharge(e *Endpoint) {
	b := e.account
	e.account = nil
	ps.passiveOf.change(b.passive, b.passive-1)
	if b.passive == ps.large {
		ps.heavy = slices.DeleteFunc(ps.heavy, func(o *account) bool { return o == b })
	}
	b.passive--
	ps.passive--
	ps.ranking.remove(e)
	b.ranking.remove(e)
	if b.passive == 0 {
		delete(ps.accounts, b.addr)
	}
}

// has returns the counts of an address.
func (ps *peers) has(addr [24]byte) load {
	if b := ps.accounts[addr]; b != nil {
		return b.load
	}
	return load{}
}
