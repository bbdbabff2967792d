//go:build linux

package ud

import (
	"time"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// bare is the interface behind its lock.
func bare(i uct.Iface) *iface {
	if g, ok := i.(*guarded); ok {
		return g.iface
	}
	return i.(*iface)
}

// Counters are what the state machine of an interface has counted.
func Counters(i uct.Iface) flow.Counters { return bare(i).flow.Counters }

// Connections is how many connections an interface has, closed ones and those that peers
// have made among them.
func Connections(i uct.Iface) int { return bare(i).flow.Endpoints() }

// Break puts the queue pair of an interface into its error state.
func Break(i uct.Iface) error {
	return bare(i).qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
}

// Held is how many slots of an interface are in use, and how many things in limbo.
func Held(i uct.Iface) (slots, limbo int) {
	s, l := &bare(i).slots, &bare(i).retired
	return s.out[0] + s.out[1] + len(s.heldMark) - len(s.freeMarks), len(l.list) - l.head
}

// Alarmed reports whether the timer of an interface is set.
func Alarmed(i uct.Iface) bool { return bare(i).alarm.at != 0 }

// Look looks after an interface in the background.
func Look(i uct.Iface) { bare(i).back.look(bare(i).work) }

// Work does what Look does, behind something else and with the lock for both.
func Work(i uct.Iface, first func()) {
	b := bare(i).back
	b.mu.Lock()
	defer b.mu.Unlock()
	first()
	b.now = b.clock.Again(b.rounds)
	bare(i).work()
}

// Tell tells an interface of an event of its device.
func Tell(i uct.Iface, typ verbs.EventType) { bare(i).AsyncEvent(verbs.AsyncEvent{Type: typ}) }

// Ours reports whether an interface takes what is sent to an address.
func Ours(i uct.Iface, gid [16]byte) bool { return bare(i).gids.ours(gid) }

// Wary is for how long the ways to strangers are not waited for.
func Wary(i uct.Iface) time.Duration {
	w := &bare(i).lookups
	return w.until - w.now()
}

// Ring is the timer of an interface.
func Ring(i uct.Iface) { bare(i).ring() }

// MostLate has so many bytes put off on an interface at most. It returns what ends that.
func MostLate(i uct.Iface, n int) (restore func()) {
	b := bare(i)
	was := b.mostLate
	b.mostLate = n
	return func() { b.mostLate = was; b.weigh(0) }
}

// LateBytes is how many are.
func LateBytes(i uct.Iface) int { return bare(i).lateBytes }

// PathTo is the way of an interface to a port.
func PathTo(i uct.Iface, a *ib.Address, path int) ib.Path { return bare(i).PathTo(a, path, 0) }

// Abort gives the connection of an endpoint up, as that to a peer that is gone.
func Abort(e uct.Endpoint) {
	if g, ok := e.(*guardedEndpoint); ok {
		e = g.endpoint
	}
	e.(*endpoint).conn.flow.Abort(flow.ErrClosed)
}
