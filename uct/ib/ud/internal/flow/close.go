//go:build linux

package flow

// Close ends the application's use of an endpoint. What was sent is repeated until the
// peer has it or is taken for dead; then the endpoint lingers, to answer a peer that
// has not heard that its packets have arrived. Messages still come from it, unless it
// was connected by id. An endpoint that has failed is forgotten at once. No slot is
// given back in Close itself.
func (e *Endpoint) Close() {
	if e.is(closed | gone) {
		return
	}
	it := e.it
	if e.is(passive) {
		it.adopt(e)
	}
	e.state = e.state&^blocked | closed
	if e.is(failed) || e.state&(connected|asked) == 0 {
		// Nobody has heard of it, or will answer it.
		it.remove(e)
		return
	}
	e.since = it.now
	it.peers.closed.push(e, linkAge)
	e.part()
	it.expire()
}

// Abort fails an endpoint: what it sends and receives ends, and the peer is told. A peer's
// own endpoint, which the application does not know, goes.
func (e *Endpoint) Abort(err error) {
	if !e.is(failed | gone) {
		e.refuse()
		e.fail(err)
	}
}

// Farewell tells peers that there will be nothing here any more, as far as the queue has
// room.
func (it *Iface) Farewell() {
	for _, e := range it.table.eps {
		if e != nil && !e.refuse() {
			return
		}
	}
}

// Fail fails all endpoints.
func (it *Iface) Fail(err error) {
	for k := range len(it.table.eps) {
		if e := it.table.eps[k]; e != nil {
			e.Abort(err)
		}
	}
}

// Drop makes the endpoint that a peer has made go, as the peer sends nonsense. The
// application's own fail.
func (e *Endpoint) Drop(err error) { e.Abort(err) }

// fail ends an endpoint's connection.
func (e *Endpoint) fail(err error) {
	it := e.it
	e.state = e.state&^(connected|blocked) | failed
	e.purge(err)
	switch {
	case e.is(gone):
	case e.is(passive):
		it.drop(e)
	case e.is(closed):
		it.remove(e)
	default:
		it.port.Failed(e, err)
	}
}

// farewell takes a word of farewell, which has come behind everything that the peer has
// sent.
func (e *Endpoint) farewell(refused bool) {
	it := e.it
	switch {
	case refused:
		it.Counters.GotRefusals++
		e.fail(ErrReset)
	default:
		it.Counters.GotEnds++
		if it.port.Ended(e); e.is(parted) && e.Idle() && !e.is(gone) {
			it.remove(e) // both know
		}
	}
}

// Forget makes the endpoint that a peer has made, and closed, go.
func (e *Endpoint) Forget() {
	if e.is(passive) {
		e.it.drop(e)
	}
}

// drop forgets a passive endpoint. Its number is not used for another one, should the
// peer be there: it takes that for a mistake. But no peer makes us jump to wherever.
func (it *Iface) drop(e *Endpoint) {
	if !e.is(embryo) && e.connSN-e.peer.next < maxJump {
		e.peer.next = e.connSN + 1
	}
	if !e.is(failed) {
		e.state |= failed
		e.purge(ErrClosed)
	}
	if !e.is(gone) {
		it.remove(e)
	}
}

const maxJump = 1 << 10

// remove forgets an endpoint that owes nothing to the layer above.
func (it *Iface) remove(e *Endpoint) {
	if e.is(gone) {
		return
	}
	if e.is(passive) {
		it.adopt(e)
	}
	e.purge(ErrClosed) // nothing, but for marks
	e.state = e.state&^(connected|blocked) | gone
	it.peers.closed.drop(e, linkAge)
	it.peers.remove(e)
	it.table.remove(e)
	if e.slot != none {
		it.timers.remove(e)
	}
	it.port.Gone(e)
}

// expire forgets closed endpoints from whose peers nothing was heard for the time that they
// linger, and the oldest if they are too many. A peer may hold its end for as long as it likes: where
// both sides have connected at once, one of them closes its end of what the other has made a lane
// of, over which that asks now and then whether anybody is there.
func (it *Iface) expire() {
	l := &it.peers.closed
	for l.n != 0 {
		e := l.first
		if it.now-e.since < it.linger && l.n <= it.cfg.MaxLinger {
			return
		}
		if it.now-e.heard < it.linger && l.n <= it.cfg.MaxLinger {
			l.drop(e, linkAge)
			e.since = it.now
			l.push(e, linkAge)
			continue
		}
		if !e.Idle() || e.owed&oweEnd != 0 { // or the peer is never told
			if l.n <= it.cfg.MaxLinger {
				return // as long as it takes
			}
			e.state |= failed
			e.purge(ErrClosed)
		}
		it.remove(e)
	}
}

// Close ends all endpoints, giving back their slots with an error. Nothing is posted.
func (it *Iface) Close() {
	for _, e := range it.table.eps {
		if e != nil {
			e.purge(ErrClosed)
			it.remove(e)
		}
	}
}
