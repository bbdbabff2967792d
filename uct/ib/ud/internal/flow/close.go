//go:build linux

package flow

// Close ends the application's use of an endpoint. Packets in flight are retransmitted until the
// peer has received them or is declared dead. Then the endpoint lingers, to answer a peer that does
// not know yet that its packets have arrived. A closed endpoint still delivers messages, unless it
// was connected by id. An endpoint that has failed is forgotten at once. No slot is given back in
// Close itself.
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
		// The peer does not know of the endpoint, or will not answer.
		it.remove(e)
		return
	}
	e.since = it.now
	it.peers.closed.push(e, linkAge)
	e.oweNotice()
	it.expire()
}

// Abort fails an endpoint with err: it sends and receives nothing more. The peer is notified, if
// the queue has room. A passive endpoint, which the application does not know, is forgotten.
func (e *Endpoint) Abort(err error) {
	if !e.is(failed | gone) {
		e.refuse()
		e.fail(err)
	}
}

// NotifyEnd notifies the peers of all endpoints that the endpoints cease to exist. It stops when the
// queue has no room.
func (it *Iface) NotifyEnd() {
	for _, e := range it.table.eps {
		if e != nil && !e.refuse() {
			return
		}
	}
}

// Fail fails all endpoints, as Abort does.
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

// fail ends an endpoint's connection and gives back its slots with err. It forgets a passive or
// closed endpoint, and reports the failure of any other to the port.
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

// peerEnded handles the peer's notice that its endpoint is closed or, if refused is true, that the
// endpoint does not exist any more. The notice has arrived after all packets that the peer has
// sent.
func (e *Endpoint) peerEnded(refused bool) {
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
// still has its endpoint treats a second use as an error. A peer cannot advance the next number by
// maxJump or more.
func (it *Iface) drop(e *Endpoint) {
	if !e.is(halfOpen) && e.connSN-e.peer.next < maxJump {
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

// maxJump bounds how far the connection number that a peer has chosen may be ahead of the number that
// this side expects next.
const maxJump = 1 << 10

// remove forgets an endpoint that holds no message of the layer above.
func (it *Iface) remove(e *Endpoint) {
	if e.is(gone) {
		return
	}
	if e.is(passive) {
		it.adopt(e)
	}
	e.purge(ErrClosed) // gives back flush marks at most, no messages
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
// ones if there are more than MaxLinger. A peer may keep its endpoint for any time: when both sides
// have connected at once, one side closes its endpoint of a connection that the other side uses as
// a lane and for keepalives.
func (it *Iface) expire() {
	l := &it.peers.closed
	for l.n != 0 {
		e := l.first
		if it.now-e.since < it.linger && l.n <= it.cfg.MaxLinger {
			return
		}
		if it.now-e.lastReceived < it.linger && l.n <= it.cfg.MaxLinger {
			l.drop(e, linkAge)
			e.since = it.now
			l.push(e, linkAge)
			continue
		}
		if !e.Idle() || e.owed&oweEnd != 0 { // the peer lacks packets, or the notice of the close
			if l.n <= it.cfg.MaxLinger {
				return // wait for the peer, however long that takes
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
