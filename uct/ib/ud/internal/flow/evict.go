//go:build linux

package flow

// vacancy looks for room for one more passive endpoint, of a peer at an address. ok is
// false if there is none; victim is who has to go for it, if anybody.
func (it *Iface) vacancy(addr [24]byte) (victim *Endpoint, ok bool) {
	ps := &it.peers
	if ps.embryos.n >= it.cfg.MaxEmbryos {
		e := ps.embryos.first
		if it.now-e.since < int64(embryoTime) {
			e = it.surplusEmbryo(addr)
		}
		return e, e != nil
	}
	if ps.passive < it.cfg.MaxPassive {
		return nil, true
	}
	e := it.silent()
	if e == nil {
		e = it.surplus(addr)
	}
	return e, e != nil
}

// surplusEmbryo is the oldest embryo of whoever has most, if that is more than a newcomer
// at an address would have.
func (it *Iface) surplusEmbryo(addr [24]byte) *Endpoint {
	ps := &it.peers
	if ps.embryosOf.most < ps.has(addr).embryos+2 {
		return nil
	}
	e := ps.embryos.first
	for e.burden.embryos < ps.embryosOf.most {
		e = e.links[linkAge].next
	}
	return e
}

// surplus is, of the passive endpoints of an address that has a large part of all, that
// which was silent for longest, if a newcomer at an address would have fewer.
func (it *Iface) surplus(addr [24]byte) *Endpoint {
	ps := &it.peers
	most := ps.passiveOf.most
	if most < ps.has(addr).passive+2 || most < it.cfg.MaxPassive/heavyPart {
		return nil
	}
	return it.quietest(func(e *Endpoint) bool { return e.burden.passive == most })
}

// silent is the passive endpoint that was silent for longest. When it has been too short a
// time for all, they are not looked at again before one can have been silent for long
// enough.
func (it *Iface) silent() *Endpoint {
	ps := &it.peers
	if it.now < ps.quiet {
		return nil
	}
	e := it.quietest(func(*Endpoint) bool { return true })
	if e != nil && it.now-e.heard < it.linger {
		ps.quiet = e.heard + it.linger
		return nil
	}
	return e
}

// quietest is the passive endpoint among some that was silent for longest.
func (it *Iface) quietest(among func(*Endpoint) bool) (e *Endpoint) {
	for _, o := range it.table.eps {
		if o != nil && o.is(passive) && (e == nil || o.heard < e.heard) && among(o) {
			e = o
		}
	}
	return e
}
