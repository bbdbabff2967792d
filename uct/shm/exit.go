//go:build linux

package shm

import (
	"github.com/ucx-go/ucx/internal/cpu"
	"github.com/ucx-go/ucx/internal/fault"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// The kernel reports the exit of a peer's process to the event set (host.Watcher). What the
// process has sent is received before the endpoints to the process fail.
//
// A caller that accesses memory of the peer without progressing the worker would never detect the
// exit, because the memory stays mapped and accepts writes. So calls that access memory query the
// kernel themselves, after a number of accesses and some time since the last query.

// exitCheck is the state of an endpoint's checks whether its peer's process has exited.
type exitCheck struct {
	watch host.Watch
	ops   int    // accesses until the processor's counter is read next
	each  int    // accesses between two reads of the counter
	asked uint64 // the counter at the last query of the kernel
	found bool   // the process has exited; progress reports that
}

const (
	// opsBetween is the largest number of accesses between two reads of the counter. If
	// accesses are rare compared with the time between queries of the kernel, each access reads
	// the counter.
	opsBetween = 64

	// opsUncounted is the number of accesses between two queries of the kernel on processors
	// without a counter.
	opsUncounted = 1024

	// askAfter is the time between queries of the kernel, in multiples of the variable moment:
	// about a millisecond, of which a system call takes a thousandth. askAfterLong, about ten
	// milliseconds, is the time if a query takes several system calls.
	askAfter     = 100
	askAfterLong = 1000
)

// moment is the number of ticks of the processor's counter in about ten microseconds, 0 if there is
// no counter.
var moment = cpu.Moment()

// lost reports whether the peer's process has exited. It queries the kernel only if enough time has
// passed since the last query, and otherwise returns false. If the process has exited the endpoint
// accepts nothing more.
//
//go:noinline
func (e *endpoint) lost() bool {
	x := &e.exit
	now, after := cpu.Counter(), uint64(askAfter)
	if !x.watch.HasDescriptor() {
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
	e.failure, x.found = errEnded(e.proc.PID), true
	e.refuseAll()
	e.i.watcher.RecordExit(&x.watch)
	return true
}

var _ host.ExitHandler = (*endpoint)(nil)

// ProcessExited implements host.ExitHandler.
func (e *endpoint) ProcessExited(p host.Process) {
	e.i.exitUnreported = true
	e.i.deferWork()
	if e.exit.found {
		e.exit.found, e.refusing = false, false
	}
	e.fail(errEnded(p.PID))
}

var _ host.Inbox = (*iface)(nil)

// MarkExit implements host.Inbox.
func (i *iface) MarkExit() {
	i.deferWork()
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

// settle fails the endpoints whose peers have exited or closed their rings, after all messages of
// these peers were received, or after host.SettleTime.
func (i *iface) settle() {
	i.watcher.Settle()
	if len(i.ended) == 0 || !i.PastMark() && i.worker.Now()-i.endedAt < host.SettleTime {
		return
	}
	for _, e := range i.ended {
		e.fail(errClosed()) // no effect on a closed endpoint
	}
	clear(i.ended)
	i.ended = i.ended[:0]
}

// unsettled reports whether progress still has to report peers that have exited or closed their
// rings.
func (i *iface) unsettled() bool {
	return i.exitUnreported || len(i.ended) > 0 || i.watcher.Unsettled()
}

// reportExits calls SenderExited if a process that may have sent messages has exited. It returns
// the number of exits reported, 0 or 1.
func (i *iface) reportExits() int {
	if !i.exitUnreported {
		return 0
	}
	i.exitUnreported = false
	if i.params.SenderExited != nil {
		i.params.SenderExited()
	}
	return 1
}
