package shm

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// checkRounds is the number of rounds an endpoint waits for room before it asks
// whether the peer lives. A peer that is stopped or busy does.
const checkRounds = 1 << 16

// Fault implements fault.Owner: the endpoint fails for a fault in mem, in the peer's
// ring, or in what it has attached.
func (e *endpoint) Fault(addr uint64, mem []byte) error {
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
	e.leaveWaiting()
	e.i.failed = append(e.i.failed, e)
	e.i.chores = true
	return err
}

// Check implements uct.Endpoint: the process that owns the ring must live, and
// the ring be open.
func (e *endpoint) Check(*uct.Completion) error {
	if e.refusing {
		return e.refusal()
	}
	if err := e.look(); err != nil && err != ucs.ErrNoResource {
		return nil // reported by progress
	}
	e.checkAlive()
	return nil
}

func (e *endpoint) checkAlive() {
	if !e.proc.Alive() {
		e.fail(fmt.Errorf("shm: process %d has ended: %w", e.proc.PID, ucs.ErrConnectionReset))
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
	if !e.waits {
		e.waits = true
		e.rounds = 0
		e.i.waiting = append(e.i.waiting, e)
		e.i.chores = true
	}
	e.pending.Add(p)
	return nil
}

// PendingPurge implements uct.Endpoint.
func (e *endpoint) PendingPurge(fn func(*uct.Pending)) {
	e.pending.Purge(fn)
	e.leaveWaiting()
}

func (e *endpoint) leaveWaiting() {
	if e.waits {
		e.waits = false
		k := slices.Index(e.i.waiting, e)
		e.i.waiting = slices.Delete(e.i.waiting, k, k+1)
	}
}

// doChores reports failures and lets pending requests try again.
//
//go:noinline
func (i *iface) doChores() int {
	n := 0
	i.inRound = true // what is called may not close the interface
	for k := 0; k < len(i.waiting); {
		e := i.waiting[k]
		n += e.dispatch()
		if k == len(i.waiting) || i.waiting[k] != e {
			continue // it left, or others did
		}
		if e.pending.Empty() {
			e.leaveWaiting()
		} else {
			k++
		}
	}
	for len(i.failed) > 0 {
		e := i.failed[0]
		i.failed = slices.Delete(i.failed, 0, 1)
		if e.closed {
			continue
		}
		n++
		if i.params.OnError != nil {
			i.params.OnError(e, e.user, e.failure)
		} else {
			log.Write(i.o.failure, "shared-memory endpoint failed", zap.Error(e.failure))
		}
	}
	i.inRound = false
	i.chores = len(i.waiting) > 0 || len(i.failed) > 0
	return n
}

// dispatch lets the requests of an endpoint try again if there is room.
func (e *endpoint) dispatch() int {
	if e.rounds++; e.rounds%checkRounds == 0 {
		e.checkAlive()
	}
	if e.refusing || !e.hasRoom() {
		return 0
	}
	e.rounds = 0
	return e.pending.Dispatch()
}

// hasRoom is look without a call while nothing has changed.
func (e *endpoint) hasRoom() bool {
	if !e.fenced && e.full && atomic.LoadUint64(e.peer) == e.tail && atomic.LoadUint32(e.addrLen) != 0 {
		return false
	}
	return e.look() == nil
}
