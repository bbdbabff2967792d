//go:build linux

package shm

import (
	"errors"
	"sync/atomic"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// checkRounds is the number of rounds of progress for which an endpoint waits for room, without a
// sleep, before it checks whether the peer's process is alive. A process that is stopped or busy is
// alive.
const checkRounds = 1 << 16

// Fault implements fault.Owner: the endpoint fails for a fault in mem, in the peer's ring, or
// in a segment of receive buffers.
func (e *endpoint) Fault(addr uint64, mem []byte) error {
	e.limit = 0 // amShortSlow may have been left with another limit
	ours := fault.Within(addr, mem) || fault.Within(addr, e.seg.mem)
	for _, s := range e.segs {
		ours = ours || fault.Within(addr, s.mem)
	}
	if !ours {
		return nil
	}
	return e.fail(errTruncated(addr))
}

// fail makes the endpoint accept nothing any more, and returns err. Progress reports the
// failure. ucs.ErrNoResource is no failure.
func (e *endpoint) fail(err error) error {
	if e.refusing || errors.Is(err, ucs.ErrNoResource) {
		return err
	}
	e.failure = err
	e.refuseAll()
	e.i.waiting.Leave(&e.pending)
	e.i.failures.Add(&e.i.reporter, e, err)
	e.i.deferWork()
	return err
}

// Check implements uct.Endpoint: the process that owns the ring must be alive, and the ring
// must be open. A ring of C UCX does not say that it is closed; the kernel tells whether its
// owner still has it.
func (e *endpoint) Check(*uct.Completion) error {
	if e.refusing {
		return e.refusal()
	}
	if err := e.look(); err != nil && err != ucs.ErrNoResource {
		return nil // progress reports the failure
	}
	if !e.ours && e.unowned() {
		e.fail(errClosed())
	}
	e.checkAlive()
	return nil
}

// unowned reports whether the kernel says that the owner of the ring does not have the ring any
// more.
func (e *endpoint) unowned() bool { return e.i.domain.m.unowned(e.ref, e.seg.ident) }

func (e *endpoint) checkAlive() {
	if !e.proc.Alive() {
		e.fail(errEnded(e.proc.PID))
	}
}

// look does what the method room does, inside a fence (internal/fault) if the ring can shrink.
func (e *endpoint) look() (err error) {
	if e.fenced {
		defer fault.End(fault.Begin(), e, nil, &err)
	}
	return e.room()
}

// PendingAdd implements uct.Endpoint.
func (e *endpoint) PendingAdd(p *uct.Pending) error {
	if e.refusing || e.pending.Empty() && e.look() != ucs.ErrNoResource {
		return ucs.ErrBusy // the caller tries the operation again, which returns the error if there is one
	}
	if e.pending.Empty() {
		e.rounds = 0
		e.i.blocked.moved = true
	}
	e.i.deferWork()
	e.limit = 0
	e.i.waiting.Add(&e.pending, e, p)
	return nil
}

// PendingPurge implements uct.Endpoint.
func (e *endpoint) PendingPurge(fn func(*uct.Pending)) {
	e.i.waiting.Purge(&e.pending, fn)
}

// Room implements kit.Sender. Sending is possible while the peer's ring has room.
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

// checkPeer checks whether a peer whose ring stays full is alive, and wakes the peer: the peer may
// be asleep while its ring looks full because another process has written to the ring.
func (e *endpoint) checkPeer() {
	e.checkAlive()
	e.i.sock.wake(e.wakeup)
}

// Over implements kit.Failing. No operations are in flight that it would have to end.
func (e *endpoint) Over(error) (userData any, report bool) { return e.user, !e.closed }

// hasRoom reports whether the peer's ring has room. It calls look only if the tail has changed
// since the ring was full.
func (e *endpoint) hasRoom() bool {
	if !e.fenced && e.full && atomic.LoadUint64(e.peer) == e.tail && atomic.LoadUint32(e.addrLen) != 0 {
		return false
	}
	return e.look() == nil
}
