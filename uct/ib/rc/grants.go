//go:build linux

package rc

// This file sends the grants that peers have asked for at once. A grant for which there is no room
// waits, and goes before all requests of the upper layer: otherwise two peers that each wait for a
// grant, and have filled their queues meanwhile, would wait forever.

// grant sends a grant, or records that one is due.
func (e *endpoint) grant() {
	if e.lost() || e.due.Listed() {
		return
	}
	if e.room > 0 && e.mayTake() && e.iface.grants.Len() == 0 {
		e.postGrant()
		return
	}
	e.iface.grants.Add(&e.due, e)
}

// postGrant sends a message that is only a grant. There must be room.
func (e *endpoint) postGrant() {
	i := e.iface
	i.head[0] = fcPure
	f := e.signal(false)
	p := e.qp.Begin()
	p.Send(e.id(), f)
	p.Inline(i.head[:1])
	e.ringInternal(p, f) // an error ends the endpoint
	e.receives = e.posted
}

// sendGrants sends the grants that are due and for which there is room, and returns their
// number.
func (i *iface) sendGrants() (n int) {
	for range i.grants.Len() {
		if i.credits <= 0 || i.grants.Len() == 0 {
			break
		}
		e := i.grants.Next()
		if e.room <= 0 || !e.mayTake() {
			i.grants.Pass()
			continue
		}
		i.grants.Remove(&e.due)
		e.postGrant()
		n++
	}
	return n
}
