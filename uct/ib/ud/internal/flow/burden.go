//go:build linux

package flow

// Peers at one address may make as many endpoints as there can be, but not at the cost of
// others. What each address has is counted, and when there is no room for somebody else
// whoever has most of all gives way. Who makes up addresses has as many as he likes:
// against him there are the limits alone.

// burden is what the peers at an address have made and the application has not taken.
type burden struct {
	addr    [24]byte
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
		b = &burden{addr: addr}
		ps.burdens[addr] = b
	}
	e.burden = b
	ps.embryosOf.change(b.embryos, b.embryos+1)
	ps.passiveOf.change(b.passive, b.passive+1)
	b.embryos++
	b.passive++
	ps.passive++
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
	b.passive--
	ps.passive--
	if b.passive == 0 {
		delete(ps.burdens, b.addr)
	}
}

// has is what an address has.
func (ps *peers) has(addr [24]byte) burden {
	if b := ps.burdens[addr]; b != nil {
		return *b
	}
	return burden{}
}
