package sim

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/kit"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// endpoint leads to a peer. Fields without a remark belong to the goroutine that
// progresses its iface.
type endpoint struct {
	uct.NoAM
	uct.NoRMA
	home     *iface
	peer     *iface // nil until connected
	id       uint64
	other    uint64 // the id of the endpoint it is connected with, 0 for none in particular
	number   int    // in the order of creation on the network
	userData any

	pending  kit.Queue
	ops      opQueue
	readyAt  uint64 // round from which it can send
	accepted int    // operations
	attempts int
	failed   error // why nothing is accepted any more
	closed   bool
	lingers  bool // closed, and its peer's end does not know

	// Guarded by home.net.mu.
	sent     uint64 // messages put on their way
	arrived  uint64 // of those, taken by the peer or lost
	watching bool   // sleeps until one arrives
	lost     error  // the connection is broken; progress will see to it
}

var _ interface {
	uct.Endpoint
	uct.RMA
	uct.Atomic
	uct.Paired
	uct.Located
	uct.Lingerer
	uct.Checker
} = (*endpoint)(nil)

// NewEndpoint implements uct.Iface.
func (i *iface) NewEndpoint(p uct.EndpointParams) (uct.Endpoint, error) {
	if p.PathIndex < 0 || p.PathIndex >= i.attr.NumPaths {
		return nil, fmt.Errorf("sim: path %d of %d: %w", p.PathIndex, i.attr.NumPaths, ucs.ErrInvalidParam)
	}
	if len(i.endpoints) >= i.attr.MaxEndpoints {
		return nil, fmt.Errorf("sim: all %d endpoints are in use: %w", len(i.endpoints), ucs.ErrExceedsLimit)
	}
	later := p.DeviceAddr == nil && p.IfaceAddr == nil
	want := uct.IfaceConnectToIface
	if later {
		want = uct.IfaceConnectToEP
	}
	if !i.attr.Flags.Has(want) {
		return nil, ucs.ErrUnsupported
	}
	e := &endpoint{home: i, id: i.net.number(), userData: p.UserData}
	if !later {
		if err := i.Reachable(uct.ReachableParams{DeviceAddr: p.DeviceAddr, IfaceAddr: p.IfaceAddr}); err != nil {
			return nil, err
		}
		e.connect(p.IfaceAddr)
	}
	i.net.mu.Lock()
	e.number = i.net.eps
	i.net.eps++
	if later {
		i.net.ends[e.id] = e
	}
	i.net.mu.Unlock()
	i.endpoints = append(i.endpoints[:len(i.endpoints):len(i.endpoints)], e)
	return e, nil
}

// admit decides whether an operation is accepted, and what happens to it.
func (e *endpoint) admit(kind fault.Kind, id uct.AMID) (fault.Effect, error) {
	var eff fault.Effect
	if err := e.ready(); err != nil {
		return eff, err
	}
	if !e.canSend() {
		e.tapNoRoom(kind, id)
		return eff, ucs.ErrNoResource
	}
	if plan := e.home.o.Plan; plan != nil {
		e.attempts++
		eff = plan(fault.Op{Kind: kind, ID: id, Endpoint: e.number, N: e.accepted + 1, Attempt: e.attempts})
	}
	if eff.Stall > 0 {
		e.readyAt = e.home.round + uint64(eff.Stall)
		e.tapNoRoom(kind, id)
		return eff, ucs.ErrNoResource
	}
	if eff.Refuse != nil {
		return eff, eff.Refuse
	}
	e.accepted++
	if eff.Drop != nil {
		e.home.net.mu.Lock()
		e.drop(eff.Drop)
		e.home.net.mu.Unlock()
	}
	return eff, nil
}

// ready says whether an operation may go on that needs no resources.
func (e *endpoint) ready() error {
	if e.failed != nil {
		return e.failed
	}
	if e.pending.Blocks() {
		return ucs.ErrNoResource
	}
	return nil
}

// canSend says whether there are resources.
func (e *endpoint) canSend() bool {
	e.home.net.mu.Lock()
	defer e.home.net.mu.Unlock()
	return e.canSendLocked()
}

func (e *endpoint) canSendLocked() bool {
	return e.room() == kit.Open
}

// Room implements kit.Sender.
func (e *endpoint) Room() kit.Room {
	e.home.net.mu.Lock()
	defer e.home.net.mu.Unlock()
	return e.room()
}

// room says whether there are resources. The caller holds net.mu.
func (e *endpoint) room() kit.Room {
	switch {
	case e.peer == nil || e.home.round < e.readyAt || e.inFlight() >= e.home.o.Window:
		return kit.Full
	case e.home.o.Credits > 0 && e.home.inFlight() >= e.home.o.Credits:
		return kit.Exhausted
	}
	return kit.Open
}

// inFlight is the number of operations that are not over. The caller holds net.mu.
func (e *endpoint) inFlight() int { return int(e.sent-e.arrived) + e.ops.count }

// inFlight is the number of operations of all endpoints that are not over. The caller
// holds net.mu.
func (i *iface) inFlight() int {
	n := 0
	for _, e := range i.endpoints {
		n += e.inFlight()
	}
	return n
}

// busy says whether progress can do something for e. The caller holds net.mu.
func (e *endpoint) busy() bool {
	if e.failed != nil {
		return false
	}
	if e.lost != nil || e.ops.head != nil && !e.waitsForPeer(e.ops.head) {
		return true
	}
	return !e.pending.Empty() && e.peer != nil && (e.canSendLocked() || e.home.round < e.readyAt)
}

// progress does what e can do in this round and returns how much that was.
func (e *endpoint) progress() int {
	if e.failed != nil {
		return 0
	}
	e.home.net.mu.Lock()
	lost := e.lost
	e.home.net.mu.Unlock()
	if lost != nil {
		e.fail(lost)
		return 1
	}
	return e.runOps()
}

// end stops e for good: operations in flight end with err, and so does what is
// tried later.
func (e *endpoint) end(err error, zcopyOnly bool) {
	e.stop(err, zcopyOnly)
	e.endOps(err)
}

// stop is end without the operations in flight.
func (e *endpoint) stop(err error, zcopyOnly bool) {
	e.failed = err
	e.home.waiting.Leave(&e.pending)
	e.home.net.mu.Lock()
	if !e.lingers {
		delete(e.home.net.ends, e.id)
	}
	e.recall(zcopyOnly)
	if e.peer != nil {
		delete(e.peer.incoming, e)
		e.sayLast()
	}
	e.home.net.mu.Unlock()
}

// fail ends e with err; the round that is running reports it.
func (e *endpoint) fail(err error) {
	e.stop(err, false)
	e.home.failures.Add(&e.home.reporter, e, err)
}

// Over implements kit.Failing.
func (e *endpoint) Over(err error) (userData any, tell bool) {
	e.tapFailed(err)
	e.endOps(err)
	return e.userData, !e.closed
}

// Fence implements uct.Endpoint: operations happen in order.
func (e *endpoint) Fence() error { return e.ready() }

// Check implements uct.Endpoint. A peer that is gone has been found out already.
func (e *endpoint) Check(*uct.Completion) error {
	if !e.home.attr.Flags.Has(uct.IfaceEpCheck) {
		return ucs.ErrUnsupported
	}
	return e.ready()
}

// PendingAdd implements uct.Endpoint.
func (e *endpoint) PendingAdd(p *uct.Pending) error {
	if e.failed != nil || e.pending.Empty() && e.canSend() {
		return ucs.ErrBusy
	}
	e.home.waiting.Add(&e.pending, e, p)
	return nil
}

// PendingPurge implements uct.Endpoint.
func (e *endpoint) PendingPurge(fn func(*uct.Pending)) { e.home.waiting.Purge(&e.pending, fn) }

// Close implements uct.Endpoint. Messages whose bytes have been taken are still
// delivered.
func (e *endpoint) Close() {
	if e.closed {
		return
	}
	e.closed = true
	if e.failed == nil {
		e.end(ucs.ErrCanceled, true)
	}
	open := make([]*endpoint, 0, len(e.home.endpoints))
	for _, other := range e.home.endpoints {
		if other != e {
			open = append(open, other)
		}
	}
	e.home.endpoints = open
}

// Linger implements uct.Lingerer: the endpoint that this one is connected with is heard as
// long as there is the interface.
func (e *endpoint) Linger() {
	e.lingers = !e.closed && e.failed == nil && e.peer != nil
	e.Close()
}
