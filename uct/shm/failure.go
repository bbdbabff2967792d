//go:build linux

package shm

import (
	"errors"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// checkRounds is the number of rounds an endpoint waits for room, without a sleep,
// before it asks whether the peer lives. A peer that is stopped or busy does.
const checkRounds = 1 << 16

// Fault implements fault.Owner: the endpoint fails for a fault in mem, in the peer's
// ring, or in what it has attached.
func (e *endpoint) Fault(addr uint64, mem []byte) error {
	e.fenced = true // wherever the call was
	ours := fault.Within(addr, mem) || fault.Within(addr, e.seg.mem)
	for _, s := range e.segs {
		ours = ours || fault.Within(addr, s.mem)
	}
	if !ours {
		return nil
	}
	return e.fail(errCut(addr))
}

// fail ends the endpoint; progress tells its user. It returns err.
func (e *endpoint) fail(err error) error {
	if e.refusing || errors.Is(err, ucs.ErrNoResource) {
		return err
	}
	e.failure = err
	e.refusing = true
	e.i.waiting.Leave(&e.pending)
	e.i.failures.Add(&e.i.reporter, e, err)
	e.i.chores = true
	return err
}

// Check implements uct.Endpoint: the process that owns the ring must live, and
// the ring be open. One of C UCX does not say that it is closed; whether it is there still
// the kernel knows.
func (e *endpoint) Check(*uct.Completion) error {
	if e.refusing {
		return e.refusal()
	}
	if err := e.look(); err != nil && err != ucs.ErrNoResource {
		return nil // reported by progress
	}
	if !e.ours && e.unowned() {
		e.fail(errClosed())
	}
	e.checkAlive()
	return nil
}

// unowned reports whether the kernel says that the owner of the ring has it no more.
func (e *endpoint) unowned() bool { return e.i.domain.m.unowned(e.ref, e.seg.ident) }

func (e *endpoint) checkAlive() {
	if !e.proc.Alive() {
		e.fail(errEnded(e.proc.PID))
	}
}

// look is room for callers without a fence.
func (e *endpoint) look() (err error) {
	if e.fenced {
		defer fault.End(fault.Begin(), e, nil, &err)
	}
	return e.room()
}

// PendingAdd implements uct.Endpoint.
func (e *endpoint) PendingAdd(p *uct.Pending) error {
	if e.refusing || e.pending.Empty() && e.look() != ucs.ErrNoResource {
		return ucs.ErrBusy // or the operation would not say what is wrong
	}
	if e.pending.Empty() {
		e.rounds = 0
		e.i.blocked.moved = true
	}
	e.i.chores = true
	e.i.waiting.Add(&e.pending, e, p)
	return nil
}

// PendingPurge implements uct.Endpoint.
func (e *endpoint) PendingPurge(fn func(*uct.Pending)) {
	e.i.waiting.Purge(&e.pending, fn)
}

// Room implements kit.Sender: the ring is the peer's.
func (e *endpoint) Room() kit.Room {
	if e.refusing || !e.hasRoom() {
		if e.rounds++; e.rounds%checkRounds == 0 {
			e.checkPeer()
		}
		return kit.Full
	}
	e.rounds = 0
	return kit.Open
}

// checkPeer asks whether a peer that gives no room lives, and wakes it: it may sleep with
// a ring that somebody has made look full.
func (e *endpoint) checkPeer() {
	e.checkAlive()
	e.i.sock.wake(e.wakeup)
}

// Over implements kit.Failing: no operation is in flight.
func (e *endpoint) Over(error) (userData any, tell bool) { return e.user, !e.closed }

// hasRoom is look without a call while nothing has changed.
func (e *endpoint) hasRoom() bool {
	if !e.fenced && e.full && atomic.LoadUint64(e.peer) == e.tail && atomic.LoadUint32(e.addrLen) != 0 {
		return false
	}
	return e.look() == nil
}
