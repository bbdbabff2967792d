//go:build linux

package flow

// vacancy looks for room for one more passive endpoint, of a peer at addr. ok is false if there is
// no room; target is the endpoint to evict, nil if none has to be evicted.
func (it *Iface) vacancy(addr [24]byte) (target *Endpoint, ok bool) {
	ps := &it.peers
	if ps.embryos.n >= it.cfg.MaxEmbryos {
		e := ps.embryos.first
		if it.now-e.since < int64(embryoGrace) {
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

// surplusEmbryo returns the oldest embryo of an address with the most embryos, if that address has
// more than addr would have with one more. Otherwise it returns nil.
func (it *Iface) surplusEmbryo(addr [24]byte) *Endpoint {
	ps := &it.peers
	if ps.embryosOf.most < ps.has(addr).embryos+2 {
		return nil
	}
	e := ps.embryos.first
	for e.account.embryos < ps.embryosOf.most {
		e = e.links[linkAge].next
	}
	return e
}

// surplus returns the endpoint that has been silent the longest among the passive endpoints of an
// address with the most of them, if that address has a large part of all and addr would have fewer
// with one more. Otherwise it returns nil.
func (it *Iface) surplus(addr [24]byte) *Endpoint {
	ps := &it.peers
	most := ps.passiveOf.most
	if most < ps.has(addr).passive+2 {
		return nil
	}
	for _, b := range ps.heavy {
		if b.passive == most {
			return b.ranking.longestSilent()
		}
	}
	return nil
}

// silent returns the passive endpoint that has been silent the longest, nil if that endpoint's peer
// has sent a packet within the linger time.
func (it *Iface) silent() *Endpoint {
	e := it.peers.ranking.longestSilent()
	if e == nil || it.now-e.lastReceived < it.linger {
		return nil
	}
	return e
}
