package sim

import (
	"cmp"
	"maps"
	"slices"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Medium makes the ifaces of a network count time instead of rounds of progress: Options.Latency,
// ConnectDelay, and the delays of faults are then in nanoseconds, and the medium decides when a
// message arrives.
type Medium interface {
	// Now returns the time, which is not 0.
	Now() uint64

	// Carry returns when n bytes that leave a place at a time arrive at another place, or Never if
	// they cannot arrive before something changes (Network.Heal). A message does not overtake
	// earlier ones of its endpoint.
	Carry(from, to *Place, at uint64, n int) (due uint64)

	// Down returns since when nothing has been able to go from one place to another and back. It
	// reports false if a message and its acknowledgement can arrive now.
	Down(a, b *Place) (since uint64, down bool)

	// Wake is called when an iface at a place has something to do at a time, which may have passed.
	Wake(at *Place, due uint64)
}

// Never is a time that does not come.
const Never = 1<<64 - 1

// now returns the time of the iface: the medium's, or the number of its round. The caller owns the
// iface or holds net.mu.
func (i *iface) now() uint64 {
	if m := i.o.Medium; m != nil {
		return m.Now()
	}
	return i.round
}

// wakeAt tells the medium, if there is one, that the iface has something to do at a time.
func (i *iface) wakeAt(due uint64) {
	if m := i.o.Medium; m != nil && due != Never {
		m.Wake(i.o.Place, due)
	}
}

// arrival returns when a message of n bytes from e arrives at its peer. The caller holds net.mu.
func (e *endpoint) arrival(n int) (due uint64) {
	i := e.peer
	if i.o.Medium == nil {
		return i.round + 1 + uint64(i.o.Latency)
	}
	return e.arrivalOf(i.now(), n)
}

// arrivalOf is arrival for a message that leaves at a time, with a Medium.
func (e *endpoint) arrivalOf(at uint64, n int) (due uint64) {
	i := e.peer
	due = i.o.Medium.Carry(e.home.o.Place, i.o.Place, at, n)
	if last := e.ops.tail; last != nil && last.access.kind != 0 && e.home.attr.Flags.Has(uct.IfacePutAMOrder) {
		due = max(due, last.due)
	}
	if e.timed.held || due == Never {
		e.timed.held = true
		return Never
	}
	e.timed.lastDue = max(e.timed.lastDue, due)
	return e.timed.lastDue
}

// enqueue puts a packet into the inbox, behind all that arrive no later. The caller holds net.mu.
func (i *iface) enqueue(p *packet) {
	k := len(i.inbox)
	if i.o.Medium != nil {
		for k > 0 && i.inbox[k-1].due > p.due {
			k--
		}
	}
	i.inbox = append(i.inbox, nil)
	copy(i.inbox[k+1:], i.inbox[k:])
	i.inbox[k] = p
	i.wakeAt(p.due)
}

// hasArrived reports whether there is a message to receive. The caller holds net.mu.
func (i *iface) hasArrived() bool {
	if i.o.Medium == nil || len(i.inbox) == 0 {
		return len(i.inbox) > 0
	}
	if i.blocked() {
		return false
	}
	now := i.now()
	for _, p := range i.inbox {
		if p.due > now {
			break
		}
		if p.canceled || !i.waits(p) {
			return true
		}
	}
	return false
}

// waits reports whether a message that has arrived cannot be received yet: its source is paused, or an
// access that takes effect before it has not. The caller holds net.mu.
func (i *iface) waits(p *packet) bool {
	return p.after > p.from.timed.ended || len(i.paused) > 0 && i.paused[p.from]
}

// Touch rings the bells of the armed ifaces at a place for what has arrived there. The medium calls it
// at the times of Wake. It reports whether there is an iface with something to do.
func (n *Network) Touch(at *Place) (work bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, i := range n.places[at] {
		if i.hasArrived() || slices.ContainsFunc(i.actives, (*endpoint).busy) {
			work = true
			i.ring()
		}
	}
	return n.touchManagers(at) || work
}

// remove removes an iface, which is closed or whose process has ended. The caller holds n.mu.
func (n *Network) remove(i *iface) {
	i.closed = true
	delete(n.ifaces, i.id)
	maps.DeleteFunc(n.endpointsByID, func(_ uint64, e *endpoint) bool { return e.home == i })
	if at := i.o.Place; at != nil {
		n.graves[i.id] = at
		list := n.places[at]
		if k := slices.Index(list, i); k >= 0 {
			n.places[at] = slices.Delete(list, k, k+1)
		}
		if len(n.places[at]) == 0 {
			delete(n.places, at)
		}
	}
}

// Kill removes the ifaces at a place, whose process has ended without closing them. Messages of which
// the medium has a copy still arrive. Options.Death says what the peers notice. With midWrite the
// process was in the middle of writing a message to one of its peers.
func (n *Network) Kill(at *Place, midWrite bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.killManagers(at)
	for _, i := range slices.Clone(n.places[at]) {
		n.remove(i)
		open := slices.SortedFunc(slices.Values(i.endpoints), func(a, b *endpoint) int { return cmp.Compare(a.number, b.number) })
		for _, e := range open {
			e.cancelInFlight(true)
			if e.peer == nil {
				continue
			}
			e.stopCopying()
			delete(e.peer.incoming, e)
			if midWrite && i.o.Rings && !e.peer.closed {
				midWrite = false
				e.leaveHole()
			}
			e.died = true
			e.queueEnd()
		}
		i.unread()
		for _, e := range i.senders() {
			e.stopCopying()
			e.holdAccesses()
			e.noticeEnd()
		}
	}
}

// unread drops the messages that the iface has not received, because it is closed. The caller holds net.mu.
func (i *iface) unread() {
	for _, p := range i.inbox {
		p.from.vanished()
		i.net.recycleLocked(p)
	}
	i.inbox = nil
}

// noticeEnd is called when the peer's iface has ended. The caller holds net.mu.
func (e *endpoint) noticeEnd() {
	if e.home.o.Death == DeathReset {
		e.breakLater(ucs.ErrConnectionReset)
	} else {
		e.vanished()
	}
}

// Death is what the peers of a process notice of its end.
type Death uint8

const (
	// DeathReset: the connections fail when the news has reached the peer, as over a stream.
	DeathReset Death = iota

	// DeathSilent: the peers notice nothing, as with memory that they share. What they send is lost,
	// and operations that wait for the process do not end. Endpoint.Check notices it.
	DeathSilent

	// DeathTimeout: operations are not acknowledged any more, and the endpoint fails after
	// Options.Timeout, as over a device that retransmits.
	DeathTimeout
)

// sorted returns the ifaces in the order of their numbers. The caller holds net.mu.
func (n *Network) sorted() []*iface {
	return slices.SortedFunc(maps.Values(n.ifaces), func(a, b *iface) int { return cmp.Compare(a.id, b.id) })
}

// senders returns the endpoints of peers in the order of their creation. The caller holds net.mu.
func (i *iface) senders() []*endpoint {
	return slices.SortedFunc(maps.Keys(i.incoming), func(a, b *endpoint) int { return cmp.Compare(a.number, b.number) })
}
