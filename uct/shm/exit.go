//go:build linux

package shm

import (
	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// The exit of a peer's process is told by the kernel, to the event set (host.Watcher).
// What the process has sent is received before the endpoints to it fail.
//
// Whoever accesses memory of the peer and does not progress would never be told: that
// memory stays mapped, and takes what is written. So such calls ask by themselves, when
// some of them and some time have passed since the last question.

// exitCheck is what an endpoint knows of its peer's process.
type exitCheck struct {
	watch host.Watch
	ops   int    // accesses until the next look at the processor's counter
	each  int    // accesses between such looks
	asked uint64 // the counter at the last question
	found bool   // the process has exited; the user is told by progress
}

const (
	// opsBetween is how many accesses at most pass without a look at the counter. Where
	// few come in the time between two questions, each looks.
	opsBetween = 64

	// opsUncounted is as many where there is no counter: each look is a question.
	opsUncounted = 1024

	// askAfter is the time between questions, in moments of the counter: a millisecond
	// or so, of which a system call is a thousandth; ten of them where it takes several.
	askAfter     = 100
	askAfterLong = 1000
)

// moment is how far the processor's counter goes in some ten microseconds.
var moment = cpu.Moment()

// lost reports whether the peer's process has exited, which it seldom asks. The endpoint
// accepts nothing more then.
//
//go:noinline
func (e *endpoint) lost() bool {
	x := &e.exit
	now, after := cpu.Counter(), uint64(askAfter)
	if !x.watch.Told() {
		after = askAfterLong
	}
	switch passed := now - x.asked; {
	case moment == 0:
		x.each = opsUncounted
	case passed < after*moment:
		x.each = max(min(2*x.each, opsBetween), 1)
		x.ops = x.each
		return false
	case passed > 2*after*moment:
		x.each = 1
	}
	x.ops, x.asked = x.each, now
	if !x.watch.HasExited() {
		return false
	}
	e.failure, e.refusing, x.found = errEnded(e.proc.PID), true, true
	e.i.watcher.Found(&x.watch)
	return true
}

var _ host.ExitHandler = (*endpoint)(nil)

// ProcessExited implements host.ExitHandler.
func (e *endpoint) ProcessExited(p host.Process) {
	e.i.untold, e.i.chores = true, true
	if e.exit.found {
		e.exit.found, e.refusing = false, false
	}
	e.fail(errEnded(p.PID))
}

var _ host.Inbox = (*iface)(nil)

// MarkExit implements host.Inbox.
func (i *iface) MarkExit() {
	i.chores = true
	if i.dead {
		return
	}
	if i.fenced {
		defer fault.End(fault.Begin(), i, nil, nil)
	}
	i.exitMark = i.rx.read + min(i.rx.claimed(), uint64(i.rx.n))
}

// PastMark implements host.Inbox.
func (i *iface) PastMark() bool { return i.dead || i.rx.read >= i.exitMark }

// settle fails the endpoints whose peers are gone and have sent nothing that is still to
// be received.
func (i *iface) settle() {
	i.watcher.Settle()
	if len(i.ended) == 0 || !i.PastMark() && i.worker.Now()-i.endedAt < host.SettleTime {
		return
	}
	for _, e := range i.ended {
		e.fail(errClosed()) // unless it is closed
	}
	clear(i.ended)
	i.ended = i.ended[:0]
}

// unsettled reports whether there is something left to tell of peers that are gone.
func (i *iface) unsettled() bool { return i.untold || len(i.ended) > 0 || i.watcher.Unsettled() }

// tellExits tells the user that somebody who may have sent messages has exited.
func (i *iface) tellExits() int {
	if !i.untold {
		return 0
	}
	i.untold = false
	if i.params.SenderExited != nil {
		i.params.SenderExited()
	}
	return 1
}
