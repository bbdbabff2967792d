//go:build linux

package flow

import "slices"

// Peers at one address may make as many endpoints as there can be, but not at the cost of
// others. What each address has is counted, and when there is no room for somebody else
// whoever has most of all gives way. Who makes up addresses has as many as he likes:
// against him there are the limits alone. CREQs cost nothing, so the table is not searched for
// each: those who may have to give way are known (ranking.go), addresses that have a large
// part of all are few, and so are embryos.

// burden is what the peers at an address have made and the application has not taken.
type burden struct {
	addr [24]byte
	load
	ranking ranking
}

type load struct {
	passive int
	embryos int // of these
}

// tally is how many addresses have how many of something, so that the most that one has
// is known without a search.
type tally struct {
	with []int32 // addresses with so many
	most int
}

// change is told that an address has now had so many, and now has another number.
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

// charge counts an embryo for its address.
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

// hatched is told that an embryo is none any more.
func (ps *peers) hatched(b *burden) {
	ps.embryosOf.change(b.embryos, b.embryos-1)
	b.embryos--
}

// discharge is told that an endpoint, which is no embryo, is not passive any more.
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

// has is what an address has.
func (ps *peers) has(addr [24]byte) load {
	if b := ps.burdens[addr]; b != nil {
		return b.load
	}
	return load{}
}
