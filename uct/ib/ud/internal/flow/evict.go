//go:build linux

package flow

// vacancy makes room for one more passive endpoint. It reports whether there is any.
func (it *Iface) vacancy() bool {
	ps := &it.peers
	if ps.embryos.n >= it.cfg.MaxEmbryos {
		e := ps.embryos.first
		if it.now-e.since < int64(embryoTime) {
			return false
		}
		it.Counters.Evicted++
		it.drop(e)
	}
	if ps.passive < it.cfg.MaxPassive {
		return true
	}
	return it.evict()
}

// evict drops the passive endpoint that was silent for longest. When it has been too
// short a time for all, they are not looked at again before one can have been silent
// for long enough.
func (it *Iface) evict() bool {
	ps := &it.peers
	if it.now < ps.quiet {
		return false
	}
	var e *Endpoint
	for _, o := range it.table.eps {
		if o != nil && o.is(passive) && (e == nil || o.heard < e.heard) {
			e = o
		}
	}
	if e == nil {
		return false
	}
	if it.now-e.heard < it.linger {
		ps.quiet = e.heard + it.linger
		return false
	}
	it.Counters.Evicted++
	it.drop(e)
	return true
}
