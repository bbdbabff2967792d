//go:build linux

package ud

import (
	"time"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// bare returns the interface without its lock.
func bare(i uct.Iface) *iface {
	if g, ok := i.(*guarded); ok {
		return g.iface
	}
	return i.(*iface)
}

// Counters returns the counters of an interface's state machine.
func Counters(i uct.Iface) flow.Counters { return bare(i).flow.Counters }

// Connections returns the number of connections of an interface, including closed ones and those
// that peers have made.
func Connections(i uct.Iface) int { return bare(i).flow.Endpoints() }

// Break puts the queue pair of an interface into its error state.
func Break(i uct.Iface) error {
	return bare(i).qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState)
}

// Held returns the number of slots in use, and the number of retired items.
func Held(i uct.Iface) (slots, limbo int) {
	s, l := &bare(i).slots, &bare(i).retired
	return s.out[0] + s.out[1] + len(s.heldMark) - len(s.freeMarks), len(l.list) - l.head
}

// Alarmed reports whether the timer of an interface is set.
func Alarmed(i uct.Iface) bool { return bare(i).alarm.at != 0 }

// Look does the background work of an interface.
func Look(i uct.Iface) { bare(i).back.look(bare(i).work) }

// Work does what Look does, after calling first; both under the lock.
func Work(i uct.Iface, first func()) {
	b := bare(i).back
	b.mu.Lock()
	defer b.mu.Unlock()
	first()
	b.now = b.clock.Again(b.rounds)
	bare(i).work()
}

// Tell passes an event of the device to an interface.
func Tell(i uct.Iface, typ verbs.EventType) { bare(i).AsyncEvent(verbs.AsyncEvent{Type: typ}) }

// Ours reports whether an interface accepts packets to an address.
func Ours(i uct.Iface, gid [16]byte) bool { return bare(i).gids.ours(gid) }

// Wary returns how long paths to unknown peers are still looked up in the background.
func Wary(i uct.Iface) time.Duration {
	w := &bare(i).lookups
	return w.until - w.now()
}

// Ring fires the timer of an interface.
func Ring(i uct.Iface) { bare(i).ring() }

// MostLate limits the bytes of late messages of an interface. It returns a function that undoes
// this.
func MostLate(i uct.Iface, n int) (restore func()) {
	b := bare(i)
	was := b.mostLate
	b.mostLate = n
	return func() { b.mostLate = was; b.addLateBytes(0) }
}

// LateBytes returns the bytes of late messages of an interface.
func LateBytes(i uct.Iface) int { return bare(i).lateBytes }

// PathTo returns the path from an interface to a port.
func PathTo(i uct.Iface, a *ib.Address, path int) ib.Path { return bare(i).PathTo(a, path, 0) }

// Abort aborts the connection of an endpoint, as if its peer were gone.
func Abort(e uct.Endpoint) {
	if g, ok := e.(*guardedEndpoint); ok {
		e = g.endpoint
	}
	e.(*endpoint).conn.flow.Abort(flow.ErrClosed)
}
