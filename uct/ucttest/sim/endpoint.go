package sim

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
	"github.com/ucx-go/ucx/uct/ucttest/fault"
)

// endpoint implements uct.Endpoint. Only the goroutine that progresses the iface may use its
// fields, unless noted otherwise.
type endpoint struct {
	uct.NoAM
	uct.NoRMA
	uct.BasicNetworkEndpoint
	home     *iface
	peer     *iface // nil until connected
	id       uint64
	other    uint64 // id of the peer's endpoint if connected pairwise, otherwise 0
	number   int    // number in the order of creation on the network
	userData any

	pending  kit.Queue
	ops      opQueue
	readyAt  uint64 // first round in which the endpoint can send
	index    int    // in the list of the iface's endpoints
	claimed  bool   // it has taken the resources of an endpoint
	accepted int    // number of accepted operations
	attempts int    // number of attempts, including refused ones
	failed   error  // reason why nothing is accepted any more; set under home.net.mu
	closed   bool
	draining bool // closed by Drain: the peer's endpoint can still send

	// Guarded by home.net.mu.
	sent     uint64 // messages sent
	arrived  uint64 // sent messages that the peer has received or that are lost
	bytes    int    // size of the sent messages that have not arrived
	watching bool   // wake the iface when a message arrives at the peer
	lost     error  // cause of a broken connection, for progress to report
	active   bool   // in the list of endpoints that have work
	died     bool   // its process was killed
	timed    timed
}

var _ interface {
	uct.Endpoint
	uct.RMA
	uct.Atomic
	uct.Paired
	uct.NetworkEndpoint
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
	}
	limit := i.claimEndpoint()
	if limit != nil && !(i.o.LateLimit && !later) {
		return nil, limit
	}
	e.claimed = limit == nil
	if !later {
		e.connect(p.IfaceAddr)
	}
	if limit != nil {
		i.net.mu.Lock()
		e.breakAt(limit, i.now()+1000)
		i.net.mu.Unlock()
	}
	i.net.mu.Lock()
	e.number = i.net.eps
	i.net.eps++
	if later {
		i.net.endpointsByID[e.id] = e
	}
	i.net.mu.Unlock()
	e.index = len(i.endpoints)
	i.endpoints = append(i.endpoints, e)
	if i.o.Processes && !later {
		return processEndpoint{e}, nil
	}
	return e, nil
}

// processEndpoint is an endpoint to a process of this machine.
type processEndpoint struct{ *endpoint }

var _ uct.ProcessEndpoint = processEndpoint{}

// Process implements uct.ProcessEndpoint.
func (e processEndpoint) Process() uct.Process {
	if e.peer == nil || e.peer.o.Place == nil {
		return 0
	}
	return e.peer.o.Place.Process
}

// Gone implements uct.ProcessEndpoint.
func (e processEndpoint) Gone() error {
	if e.failed != nil {
		return e.failed
	}
	return e.lost
}

// Idle implements uct.ProcessEndpoint.
func (e processEndpoint) Idle() bool { return e.ops.head == nil && e.pending.Empty() }

// claimEndpoint takes the resources of an endpoint. At a limit it asks the user of the iface to close
// endpoints.
func (i *iface) claimEndpoint() error {
	err := i.o.claim(Endpoints, 1)
	if err == nil || i.reclaim == nil || i.o.Death != DeathSilent {
		return err
	}
	if !i.reclaim() {
		return err
	}
	return i.o.claim(Endpoints, 1)
}

// admit decides whether an operation is accepted, and returns its fault.
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
		e.readyAt = e.home.now() + uint64(eff.Stall)
		e.home.wakeAt(e.readyAt)
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

// ready returns nil if an operation that needs no resources can proceed, or the error to
// return.
func (e *endpoint) ready() error {
	if e.failed != nil {
		return e.failed
	}
	if m := e.home.o.Medium; m != nil && e.lost != nil && e.timed.lostAt <= m.Now() { // progress will report it
		return e.lost
	}
	if e.pending.Blocks() {
		return ucs.ErrNoResource
	}
	return nil
}

// canSend reports whether resources for sending are available.
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

// room returns the availability of resources. The caller holds net.mu.
func (e *endpoint) room() kit.Room {
	switch {
	case e.peer == nil || e.home.now() < e.readyAt:
		return kit.Full
	}
	e.takeAcks()
	switch o := e.home.o; {
	case e.inFlight() >= o.Window || o.SendBuffer > 0 && e.bytes >= o.SendBuffer:
		return kit.Full
	case o.Credits > 0 && e.home.flying >= o.Credits && !e.home.takeAcks():
		return kit.Exhausted
	}
	return kit.Open
}

// inFlight returns the number of outstanding operations. The caller holds net.mu.
func (e *endpoint) inFlight() int { return int(e.sent-e.arrived) + e.ops.count }

// busy reports whether progress can do work for e. The caller holds net.mu.
func (e *endpoint) busy() bool {
	if e.failed != nil {
		return false
	}
	timed := e.home.o.Medium != nil // the medium wakes the iface at times to come
	if timed && (e.lost != nil || e.expired()) {
		return e.lost == nil || e.timed.lostAt <= e.home.now() || e.expired()
	}
	e.takeAcks()
	if e.lost != nil || e.ops.head != nil && !e.waitsForPeer(e.ops.head) && (!timed || e.ops.head.due <= e.home.now()) {
		return true
	}
	return !e.pending.Empty() && e.peer != nil && (e.canSendLocked() || !timed && e.home.now() < e.readyAt)
}

// progress does the work of e in this round and returns the number of events.
func (e *endpoint) progress() int {
	if e.failed != nil {
		return 0
	}
	e.home.net.mu.Lock()
	lost := e.lost
	if lost != nil && e.timed.lostAt > e.home.now() {
		lost = errPending
	}
	if e.expired() {
		lost = errSilence
	}
	e.home.net.mu.Unlock()
	switch lost {
	case nil:
		return e.runOps()
	case errPending:
		return 0
	}
	e.fail(lost)
	return 1
}

// end stops e permanently: operations in flight end with err, and later calls return err.
func (e *endpoint) end(err error, zcopyOnly bool) {
	e.stop(err, zcopyOnly)
	e.endOps(err)
}

// stop is like end, but does not end the operations in flight.
func (e *endpoint) stop(err error, zcopyOnly bool) {
	e.home.waiting.Leave(&e.pending)
	e.home.net.mu.Lock()
	e.failed = err
	if !e.draining {
		delete(e.home.net.endpointsByID, e.id)
	}
	e.cancelInFlight(zcopyOnly)
	if !zcopyOnly {
		e.timed.acks = nil
		for e.arrived < e.sent { // lost with a process that has ended
			e.delivered(0)
		}
		e.bytes = 0
	}
	if e.peer != nil {
		delete(e.peer.incoming, e)
		e.queueEnd()
	}
	e.home.net.mu.Unlock()
}

// fail stops e with err; the current round reports the failure and ends the operations in
// flight.
func (e *endpoint) fail(err error) {
	e.stop(err, false)
	e.home.failures.Add(&e.home.reporter, e, err)
}

// Over implements kit.Failing.
func (e *endpoint) Over(err error) (userData any, report bool) {
	e.tapFailed(err)
	e.endOps(err)
	return e.userData, !e.closed
}

// Fence implements uct.Endpoint. Operations take effect in order.
func (e *endpoint) Fence() error { return e.ready() }

// Check implements uct.Endpoint. With DeathReset the end of a peer is detected without it. With
// DeathTimeout it is a message without data, which a peer that is gone does not acknowledge.
func (e *endpoint) Check(*uct.Completion) error {
	if !e.home.attr.Flags.Has(uct.IfaceEpCheck) {
		return ucs.ErrUnsupported
	}
	if e.failed != nil {
		return e.failed
	}
	e.home.net.mu.Lock()
	if e.peer != nil && e.peer.closed && e.home.o.Death == DeathSilent {
		e.breakConnection(errDied)
	}
	if e.peer != nil && e.unheard() {
		e.giveUpLater()
	}
	e.home.net.mu.Unlock()
	return e.ready()
}

// PendingAdd implements uct.Endpoint.
func (e *endpoint) PendingAdd(p *uct.Pending) error {
	if e.failed != nil || e.pending.Empty() && e.canSend() {
		return ucs.ErrBusy
	}
	e.home.waiting.Add(&e.pending, e, p)
	e.home.net.mu.Lock()
	e.activate()
	e.home.awaitAcks()
	e.home.net.mu.Unlock()
	return nil
}

// PendingPurge implements uct.Endpoint.
func (e *endpoint) PendingPurge(fn func(*uct.Pending)) { e.home.waiting.Purge(&e.pending, fn) }

// Close implements uct.Endpoint. Messages whose bytes were copied are still delivered.
func (e *endpoint) Close() {
	if e.closed {
		return
	}
	e.home.net.mu.Lock()
	e.home.flying -= int(e.sent - e.arrived)
	e.closed = true
	e.home.net.mu.Unlock()
	if e.failed == nil {
		e.end(ucs.ErrCanceled, true)
	}
	if e.claimed {
		e.home.o.claim(Endpoints, -1)
	}
	list := e.home.endpoints
	last := len(list) - 1
	list[e.index] = list[last]
	list[e.index].index = e.index
	list[last] = nil
	e.home.endpoints = list[:last]
}

// Drain implements uct.NetworkEndpoint. The iface continues to receive from the peer's endpoint
// until the iface is closed.
func (e *endpoint) Drain() bool {
	e.draining = !e.closed && e.failed == nil && e.peer != nil
	e.Close()
	return true
}
