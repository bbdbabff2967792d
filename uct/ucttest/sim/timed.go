package sim

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/ucs"
)

// This file contains what endpoints do in time, on a network with a Medium: acknowledgements,
// timeouts, and ways that are cut. The callers of all functions hold the network's lock, unless noted
// otherwise.

// timed is the part of an endpoint that needs a Medium.
type timed struct {
	lastDue uint64 // arrival of the last message
	held    bool   // a message is held until Network.Heal, and so are those after it
	began   uint64 // time of the first message of those in flight
	expires uint64 // time at which silence of the peer may end the connection, 0 if it is not silent
	lostAt  uint64 // time from which the iface knows of the error lost
	acks    []ack  // acknowledgements on their way back
	pushed  uint64 // accesses started
	ended   uint64 // accesses ended
	inHand  int    // messages that the peer has taken, and whose handlers have not returned
	behind  bool   // an access waits for these handlers
}

// ack is an acknowledgement of a message.
type ack struct {
	due   uint64
	bytes int
}

var (
	errDied    = statuserr.Errorf(ucs.ErrConnectionReset, "sim: the peer's process has ended")
	errSilence = fmt.Errorf("sim: the peer does not answer: %w", ucs.ErrEndpointTimeout)
	errPending = fmt.Errorf("sim: the error is not known yet")
)

// activate adds the endpoint to those that the iface progresses.
func (e *endpoint) activate() {
	if e.active || e.failed != nil || e.closed {
		return
	}
	e.active = true
	e.home.actives = append(e.home.actives, e)
	for _, a := range e.timed.acks {
		e.home.wakeAt(a.due)
	}
}

// acknowledge is called when the peer's iface receives p.
func (e *endpoint) acknowledge(p *packet) {
	m := e.home.o.Medium
	due := uint64(0)
	if from, to := e.peer.o.Place, e.home.o.Place; m != nil && from.IP != to.IP {
		due = m.Carry(from, to, m.Now(), 0)
	}
	if due == 0 {
		e.delivered(p.size)
	} else {
		e.timed.acks = append(e.timed.acks, ack{due, p.size})
	}
	if o := p.op; o != nil {
		o.packet, p.op = nil, nil
		o.due = max(o.due, due)
		e.home.wake()
	}
	if e.watching {
		e.watching = false
		e.home.wake()
	}
	if e.active || e.home.o.Credits > 0 && !e.home.waiting.Empty() {
		e.home.wakeAt(due)
	}
}

// follows reports whether an access cannot take effect yet, because the handlers of messages before it have
// not returned. Between the arrival of a message and its handler other goroutines of the peer's process may
// run, and one of them may progress e. Messages behind the access do not arrive before its end.
func (e *endpoint) follows(o *op) bool {
	if o.access.kind == 0 || o.sent == 0 || e.timed.inHand == 0 {
		return false
	}
	e.timed.behind = true
	return true
}

// handled is called when the handler of a message of e has returned, or will not be called.
func (e *endpoint) handled() {
	e.timed.inHand--
	if e.timed.inHand == 0 && e.timed.behind {
		e.timed.behind = false
		e.home.wake()
	}
}

// takeAcks takes the acknowledgements of all endpoints, and reports whether that has returned credits.
func (i *iface) takeAcks() bool {
	for _, e := range i.endpoints {
		e.takeAcks()
	}
	return i.flying < i.o.Credits
}

// awaitAcks wakes the iface when acknowledgements return credits.
func (i *iface) awaitAcks() {
	if i.o.Credits == 0 {
		return
	}
	for _, e := range i.endpoints {
		for _, a := range e.timed.acks {
			i.wakeAt(a.due)
		}
	}
}

// delivered counts a message that the endpoint knows to be received.
func (e *endpoint) delivered(bytes int) {
	e.arrived++
	e.bytes -= bytes
	if !e.closed {
		e.home.flying--
	}
}

// takeAcks takes the acknowledgements that have come back.
func (e *endpoint) takeAcks() {
	list := e.timed.acks
	if len(list) == 0 {
		return
	}
	now, k := e.home.now(), 0
	for k < len(list) && list[k].due <= now {
		e.delivered(list[k].bytes)
		k++
	}
	if k > 0 {
		e.timed.acks = append(list[:0], list[k:]...)
		e.timed.began = now
	}
}

// starts records that a message or an access starts. While the way is cut it starts the timeout.
func (e *endpoint) starts() {
	o := e.home.o
	if o.Medium == nil {
		return
	}
	if e.inFlight() == 0 {
		e.timed.began = o.Medium.Now()
	}
	if o.Timeout > 0 && e.timed.expires == 0 {
		e.suspect()
	}
}

// suspect sets the time at which the endpoint gives up, if the way is cut.
func (e *endpoint) suspect() {
	if at := e.deadline(); at != Never {
		e.timed.expires = at
		e.activate()
		e.home.wakeAt(at)
	}
}

// deadline returns the time at which the silence of the peer ends the connection.
func (e *endpoint) deadline() uint64 {
	o := e.home.o
	if o.Timeout == 0 || e.peer == nil {
		return Never
	}
	since, down := o.Medium.Down(o.Place, e.peer.o.Place)
	if !down {
		return Never
	}
	if !o.Probes {
		if e.inFlight() == 0 {
			return Never
		}
		since = max(since, e.timed.began)
	}
	return since + o.Timeout
}

// expired reports whether the endpoint has waited for its peer for too long.
func (e *endpoint) expired() bool {
	t := &e.timed
	if t.expires == 0 || e.home.now() < t.expires {
		return false
	}
	at := e.deadline()
	if at <= e.home.now() {
		return true
	}
	if t.expires = at; at == Never {
		t.expires = 0
	}
	e.home.wakeAt(at)
	return false
}

// breakLater breaks the connection when the news of it has arrived from the peer.
func (e *endpoint) breakLater(err error) {
	if e.home.o.Medium == nil {
		e.breakConnection(err)
		return
	}
	if e.lost != nil {
		return
	}
	m := e.home.o.Medium
	e.breakAt(err, m.Carry(e.peer.o.Place, e.home.o.Place, m.Now(), 0))
}

func (e *endpoint) breakAt(err error, at uint64) {
	e.breakConnection(err)
	e.timed.lostAt = max(at, 1)
	e.home.wakeAt(at)
}

// vanished is called when the endpoint has sent something that is not acknowledged any more (unheard), or
// the peer's process ends before it has received it.
func (e *endpoint) vanished() {
	if e.inFlight() > 0 {
		e.giveUpLater()
	}
}

// giveUpLater breaks the connection after the time of all retransmissions, if the transport has such a
// time.
func (e *endpoint) giveUpLater() {
	if o := e.home.o; o.Death == DeathTimeout && e.lost == nil {
		e.breakAt(errSilence, o.Medium.Now()+o.Timeout)
	}
}

// schedule sets the time at which the operation o of the endpoint, which is being started, ends. The
// caller does not hold the lock.
func (e *endpoint) schedule(o *op) {
	e.home.net.mu.Lock()
	defer e.home.net.mu.Unlock()
	if o.access.kind != 0 {
		e.starts()
		e.timed.pushed++
		if e.home.o.Keyless {
			o.sent = e.sent // a peer that carries out the access itself handles the messages before it first
		}
		o.due = e.roundTrip(o, e.home.now()) + o.late
		if e.unheard() {
			e.giveUpLater()
		}
	}
	e.home.wakeAt(o.due)
}

// holdAccesses makes the accesses in flight wait until the endpoint gives up, because the peer's process has
// ended. Memory that is shared stays. The caller holds the lock.
func (e *endpoint) holdAccesses() {
	if e.home.o.Death == DeathSilent {
		return
	}
	for o := e.ops.head; o != nil; o = o.next {
		if o.access.kind != 0 {
			o.due = Never
		}
	}
}

// accessed counts an access that has ended, and wakes the peer if it has a message that follows. The
// caller does not hold the lock.
func (e *endpoint) accessed() {
	e.home.net.mu.Lock()
	defer e.home.net.mu.Unlock()
	e.timed.ended++
	if i := e.peer; i != nil && !i.closed && i.hasArrived() {
		i.wake()
	}
}

// roundTrip returns the time at which an access that leaves at a time ends.
func (e *endpoint) roundTrip(o *op, at uint64) uint64 {
	if e.peer == nil {
		return at
	}
	if e.home.o.Death != DeathSilent && e.unheard() {
		return Never // until the endpoint gives up
	}
	m, a := e.home.o.Medium, &o.access
	there, back := 0, 0
	switch a.kind {
	case accessGet, accessGetIOV:
		back = a.size
	case accessPut, accessPutIOV, accessAtomic:
		there = a.size
	}
	from, to := e.home.o.Place, e.peer.o.Place
	if from.IP == to.IP { // the CPU copies
		return m.Carry(from, to, at, there+back)
	}
	due := m.Carry(from, to, at, there)
	if due == Never {
		return due
	}
	return m.Carry(to, from, due, back)
}

// each calls f for the open endpoints of connections between two places for which between returns
// true, in the order of their ifaces.
func (n *Network) each(between func(from, to *Place) bool, f func(e *endpoint)) {
	for _, i := range n.sorted() {
		for _, e := range i.endpoints {
			if e.peer != nil && e.failed == nil && between(i.o.Place, e.peer.o.Place) {
				f(e)
			}
		}
	}
}

// Cut is called by the medium when the way between places is cut, in one direction or in both. The
// function between tells whether a connection uses the way.
func (n *Network) Cut(between func(from, to *Place) bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.each(between, func(e *endpoint) {
		if e.timed.expires == 0 {
			e.suspect()
		}
	})
}

// Heal is called by the medium when the way between places is usable again. What was held leaves at
// times that the function leaves returns, one for each connection.
func (n *Network) Heal(between func(from, to *Place) bool, leaves func() uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.healManagers(between, leaves)
	n.each(between, func(e *endpoint) {
		at := leaves()
		m := e.home.o.Medium
		if e.readyAt == Never {
			e.handshake(at)
		}
		if e.lost != nil && e.timed.lostAt == Never {
			e.timed.lostAt = m.Carry(e.peer.o.Place, e.home.o.Place, at, 0)
			e.home.wakeAt(e.timed.lostAt)
		}
		last := uint64(0)
		for k := range e.timed.acks {
			a := &e.timed.acks[k]
			if a.due == Never {
				a.due = m.Carry(e.peer.o.Place, e.home.o.Place, at, 0)
			}
			a.due = max(a.due, last)
			last = a.due
			e.home.wakeAt(a.due)
		}
		for o := e.ops.head; o != nil; o = o.next {
			if o.due != Never {
				continue
			}
			if o.due = last; o.access.kind != 0 {
				o.due = e.roundTrip(o, at)
			}
			e.home.wakeAt(o.due)
		}
	})
	for _, i := range n.sorted() {
		k := len(i.inbox)
		for k > 0 && i.inbox[k-1].due == Never {
			k--
		}
		held := append([]*packet(nil), i.inbox[k:]...)
		clear(i.inbox[k:])
		i.inbox = i.inbox[:k]
		at := make(map[*endpoint]uint64)
		for _, p := range held {
			if e := p.from; between(e.home.o.Place, i.o.Place) {
				if at[e] == 0 {
					at[e] = leaves()
					e.timed.held = false
				}
				p.due = e.arrivalOf(at[e], p.size)
			}
			i.enqueue(p)
		}
	}
}

// handshake sets the time at which an endpoint whose connection starts at a time can send.
func (e *endpoint) handshake(at uint64) {
	o := e.home.o
	e.readyAt = at + uint64(o.ConnectDelay)
	if from, to := o.Place, e.peer.o.Place; o.Handshake && from.IP != to.IP {
		if e.readyAt = o.Medium.Carry(from, to, e.readyAt, 0); e.readyAt != Never {
			e.readyAt = o.Medium.Carry(to, from, e.readyAt, 0)
		}
	}
	e.home.wakeAt(e.readyAt)
}

// leaveHole leaves the start of a message that its sender does not finish in the ring of the peer.
func (e *endpoint) leaveHole() {
	i := e.peer
	i.holes = append(i.holes, i.now()+i.o.HoleDelay)
	i.wakeAt(i.now() + i.o.HoleDelay)
}

// blocked reports whether the iface cannot receive because of a message that is not complete.
func (i *iface) blocked() bool {
	for len(i.holes) > 0 && i.holes[0] <= i.now() {
		i.holes = i.holes[1:]
	}
	return len(i.holes) > 0
}
