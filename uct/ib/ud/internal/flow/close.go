//go:build linux

package flow

// Close ends the application's use of an endpoint. Packets in flight are repeated until the peer
// has received them or is declared dead. Then the endpoint lingers, to answer a peer that does not
// know yet that its packets have arrived. A closed endpoint still delivers messages, unless it was
// connected by id. An endpoint that has failed is forgotten at once. No slot is given back in Close
// itself.
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
		// The peer does not know of it, or will not answer.
		it.remove(e)
		return
	}
	e.since = it.now
	it.peers.closed.push(e, linkAge)
	e.part()
	it.expire()
}

// Abort fails an endpoint: sending and receiving end, and the peer is told, if the queue has
// room. A passive endpoint, which the application does not know, is forgotten.
func (e *Endpoint) Abort(err error) {
	if !e.is(failed | gone) {
		e.refuse()
		e.fail(err)
	}
}

// Farewell tells the peers of all endpoints that the endpoints cease to exist, as far as the queue
// has room.
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

// Drop ends an endpoint whose peer sends invalid data, as Abort does: a passive endpoint is
// forgotten, an endpoint of the application fails.
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

// farewell handles the peer's notice that its endpoint is closed or, if refused, that the endpoint
// does not exist any more. The notice has arrived behind all packets that the peer has sent.
func (e *Endpoint) farewell(refused bool) {
	it := e.it
	switch {
	case refused:
		it.Counters.GotRefusals++
		e.fail(ErrReset)
	default:
		it.Counters.GotEnds++
		if it.port.Ended(e); e.is(parted) && e.Idle() && !e.is(gone) {
			it.remove(e) // both sides have closed
		}
	}
}

// Forget removes a passive endpoint, whose peer has closed it.
func (e *Endpoint) Forget() {
	if e.is(passive) {
		e.it.drop(e)
	}
}

// drop forgets a passive endpoint. Its connection number is not used again, because a peer that
// still has its end takes a second use for an error. A peer cannot advance the next number by
// maxJump or more.
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

// remove forgets an endpoint that holds no message of the layer above.
func (it *Iface) remove(e *Endpoint) {
	if e.is(gone) {
		return
	}
	if e.is(passive) {
		it.adopt(e)
	}
	e.purge(ErrClosed) // only marks, if anything
	e.state = e.state&^(connected|blocked) | gone
	it.peers.closed.drop(e, linkAge)
	it.peers.remove(e)
	it.table.remove(e)
	if e.slot != none {
		it.timers.remove(e)
	}
	it.port.Gone(e)
}

// expire forgets closed endpoints that have received nothing for the linger time, and the oldest
// ones if there are more than MaxLinger. A peer may keep its end for any time: when both sides have
// connected at once, one side closes its end of a connection that the other side uses as a lane and
// on which it sends keepalives.
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
		if !e.Idle() || e.owed&oweEnd != 0 { // the peer still has to be told of the close
			if l.n <= it.cfg.MaxLinger {
				return // it waits as long as it takes
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
