package sim

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// This file contains the operations of an endpoint on the peer's iface: putting messages into
// its inbox, removing them, waking its owner, and breaking the connection. The caller of all
// functions except dispatch holds the network's lock.

// dispatch puts p into the peer's inbox.
func (e *endpoint) dispatch(p *packet) {
	e.home.net.mu.Lock()
	defer e.home.net.mu.Unlock()
	if err := e.checkPeer(); err != nil {
		e.breakConnection(err)
	}
	if e.lost != nil { // progress has not reported it yet
		e.home.net.recycleLocked(p)
		return
	}
	p.size = len(p.buf) + uct.IOVLen(p.iov)
	if e.home.attr.Flags.Has(uct.IfacePutAMOrder) {
		p.after = e.timed.pushed
	}
	e.starts()
	e.sent++
	e.home.flying++
	e.bytes += p.size
	if e.unheard() {
		e.vanished()
		e.home.net.recycleLocked(p)
		return
	}
	if p.op != nil {
		p.op.packet = p
	}
	p.due = e.arrival(p.size)
	e.peer.enqueue(p)
	if !e.peer.noRecvWakeup && e.peer.o.Medium == nil {
		e.peer.wake()
	}
}

// checkPeer returns an error if the peer's endpoint cannot receive from e: it is closed, or it is
// not connected itself, so that a device would give up retransmission. The caller holds net.mu.
func (e *endpoint) checkPeer() error {
	if e.other == 0 {
		return nil
	}
	other := e.home.net.endpointsByID[e.other]
	switch {
	case other == nil && e.home.o.Death == DeathTimeout:
		return nil // the device gives up retransmission later
	case other == nil:
		return errOtherClosed
	case other.peer == nil:
		return errNotConnected
	}
	return nil
}

var (
	errOtherClosed  = statuserr.Errorf(ucs.ErrConnectionReset, "sim: the other end is closed")
	errNotConnected = fmt.Errorf("sim: the other end is not connected: %w", ucs.ErrEndpointTimeout)
)

// unheard reports whether nothing that e sends is acknowledged: the peer's process was killed, or, over a
// device that retransmits, the other end is closed. The caller holds net.mu.
func (e *endpoint) unheard() bool {
	return e.peer.closed || e.other != 0 && e.home.o.Death == DeathTimeout && e.home.net.endpointsByID[e.other] == nil
}

// queueEnd queues a marker at the peer, behind the last message of e, which says that no more
// messages follow. The caller holds net.mu.
func (e *endpoint) queueEnd() {
	i := e.peer
	if i.closed {
		return
	}
	p := &packet{from: e, last: true, due: e.arrival(0)}
	if n := len(i.inbox); n > 0 && i.o.Medium == nil {
		p.due = max(p.due, i.inbox[n-1].due)
	}
	i.enqueue(p)
	if i.o.Medium == nil {
		i.wake()
	}
}

// cancelInFlight cancels messages in flight: all of them, or only zero-copy messages, whose bytes are still
// in the sender's memory. The caller holds net.mu.
func (e *endpoint) cancelInFlight(zcopyOnly bool) {
	if e.peer == nil {
		return
	}
	for _, p := range e.peer.inbox {
		if p.from != e || p.canceled || zcopyOnly && p.op == nil && p.after <= e.timed.ended {
			continue
		}
		p.canceled = true
		p.forget()
		e.delivered(p.size)
		if p.op != nil {
			p.op.packet = nil
			p.op = nil
		}
	}
}

// breakConnection breaks the connection of e: messages in flight are lost, and the next progress reports
// the failure. The caller holds net.mu.
func (e *endpoint) breakConnection(err error) {
	if e.lost == nil || e.timed.lostAt > 0 {
		e.lost, e.timed.lostAt = err, 0
	}
	e.cancelInFlight(false)
	e.activate()
	e.home.wake()
}

// drop breaks all connections between the two ifaces, in both directions. The caller holds
// net.mu.
func (e *endpoint) drop(err error) {
	for _, other := range e.peer.senders() {
		if other.home == e.home {
			other.breakConnection(err)
		}
	}
	for _, other := range e.home.senders() {
		if other.home == e.peer {
			other.breakConnection(err)
		}
	}
}

// wake rings the bell if the iface is armed. The caller holds net.mu.
func (i *iface) wake() {
	i.wakeAt(0)
	i.ring()
}

func (i *iface) ring() {
	if !i.armed || i.bell == nil {
		return
	}
	i.armed = false
	i.bell.Ring()
}
