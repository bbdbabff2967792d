//go:build linux

package cma

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
	"github.com/ucx-go/ucx/uct/kit"
)

// endpoint reads and writes the memory of one process.
type endpoint struct {
	uct.NoAM
	uct.NoRMA
	iface   *iface
	peer    host.Process
	checked time.Duration // time of the last check of the peer's identity, by the function now

	queue   queue // outstanding operations
	pending kit.Queue
	user    any // user data for OnError

	place kit.Node[*endpoint] // node in iface.active
	watch host.Watch          // watch for the exit of the peer's process

	end     error // why the endpoint accepts no operations any more; nil: it accepts them
	failure bool  // the endpoint has failed with the error in end
	closed  bool
}

var _ interface {
	uct.Endpoint
	uct.RMA
	uct.ProcessEndpoint
} = (*endpoint)(nil)

// Limits of an endpoint.
const (
	// inlineMax is the largest length in bytes of an operation that is executed inside the call
	// that starts it. Copying inlineMax bytes takes about as long as entering and leaving the
	// kernel.
	inlineMax = 16 << 10

	// checkEvery is the time after which the peer's identity is checked again. The kernel
	// reuses a process id only after all others have been used.
	checkEvery = time.Second
)

// NewEndpoint implements uct.Iface. It checks that the peer's process exists and can be accessed.
func (i *iface) NewEndpoint(p uct.EndpointParams) (uct.Endpoint, error) {
	peer, err := i.peer(p.DeviceAddr, p.IfaceAddr)
	if err != nil {
		return nil, err
	}
	if p.PathIndex < 0 || p.PathIndex >= i.attr.NumPaths {
		return nil, fmt.Errorf("cma: path %d of %d: %w", p.PathIndex, i.attr.NumPaths, ucs.ErrInvalidParam)
	}
	i.endpoints++
	e := &endpoint{iface: i, peer: peer, user: p.UserData, checked: now()}
	i.watcher.Begin(&e.watch, peer, e)
	return e, nil
}

// Process implements uct.ProcessEndpoint.
func (e *endpoint) Process() uct.Process { return e.peer.ID() }

// ready returns nil if an operation may start, otherwise the error to return to the caller.
func (e *endpoint) ready() error {
	if e.end != nil {
		return e.end
	}
	if e.pending.Blocks() {
		return ucs.ErrNoResource
	}
	return nil
}

// start is the time at which the clock now is 0.
var start = time.Now()

// now returns the time since start. The worker's clock is not used, because it advances only in
// progress: without progress, the process id of a peer that has exited could belong to another
// process long before the next check.
func now() time.Duration { return time.Since(start) }

// lost checks, at most once per checkEvery, whether the process id still belongs to the peer. If it
// does not, lost makes the endpoint fail and returns true.
func (e *endpoint) lost() bool {
	t := now()
	if t-e.checked < checkEvery {
		return false
	}
	e.checked = t
	if e.peer.Alive() {
		return false
	}
	e.fail(errEnded(e.peer.PID))
	return true
}

// Flush implements uct.Endpoint.
func (e *endpoint) Flush(flags uct.FlushFlags, c *uct.Completion) error {
	if flags&uct.FlushCancel != 0 && !e.closed && !e.failure {
		e.end = ucs.ErrCanceled
		e.iface.waiting.Leave(&e.pending)
		e.drop(ucs.ErrCanceled)
		return nil
	}
	if err := e.ready(); err != nil {
		return err
	}
	if e.queue.head == nil {
		return nil
	}
	if c != nil {
		o := e.iface.take()
		if o == nil {
			return ucs.ErrNoResource
		}
		o.set(opFlush, nil, 0, 0, c)
		e.queue.push(o)
	}
	return ucs.InProgress
}

// Fence implements uct.Endpoint. It does nothing, because the operations of an endpoint are
// executed one after the other, and each is complete when the system call returns.
func (e *endpoint) Fence() error { return nil }

// Check implements uct.Endpoint.
func (e *endpoint) Check(*uct.Completion) error {
	if e.end != nil {
		return e.end
	}
	if !e.peer.Alive() {
		e.fail(errEnded(e.peer.PID))
	}
	return nil
}

// PendingAdd implements uct.Endpoint.
func (e *endpoint) PendingAdd(p *uct.Pending) error {
	if e.end != nil {
		return e.end
	}
	if e.pending.Empty() && e.iface.ops < e.iface.opts.maxOps {
		return ucs.ErrBusy
	}
	e.iface.waiting.Add(&e.pending, e, p)
	return nil
}

// PendingPurge implements uct.Endpoint.
func (e *endpoint) PendingPurge(fn func(p *uct.Pending)) { e.iface.waiting.Purge(&e.pending, fn) }

// Close implements uct.Endpoint.
func (e *endpoint) Close() {
	if e.closed {
		return
	}
	e.closed = true
	e.end = ucs.ErrNotConnected
	e.iface.waiting.Leave(&e.pending)
	e.iface.active.Remove(&e.place)
	e.iface.endpoints--
	e.iface.watcher.End(&e.watch)
	e.drop(ucs.ErrCanceled)
}

var _ host.ExitHandler = (*endpoint)(nil)

// ProcessExited implements host.ExitHandler.
func (e *endpoint) ProcessExited(p host.Process) {
	if e.end == nil {
		e.fail(errEnded(p.PID))
	}
}

// Gone implements uct.ProcessEndpoint.
func (e *endpoint) Gone() error {
	if e.failure {
		return e.end
	}
	return nil
}

// Idle implements uct.ProcessEndpoint.
func (e *endpoint) Idle() bool { return e.queue.head == nil && e.pending.Empty() }

// accessError returns the error with which the endpoint fails after the system call of operation o
// has failed with errno.
//
//go:noinline
func (e *endpoint) accessError(o *op, errno unix.Errno) error {
	n := min(o.left, e.iface.opts.segSize)
	status := ucs.ErrIO
	switch {
	case errno == unix.ESRCH || !e.peer.Alive():
		status = ucs.ErrConnectionReset
	case errno == unix.EFAULT:
		status = ucs.ErrInvalidAddr
	case errno == unix.EPERM:
		status = ucs.ErrRejected
	case errno == unix.ENOMEM:
		status = ucs.ErrNoMemory
	}
	return fmt.Errorf("cma: %v of %d bytes at %#x of process %d: %w: %w", o.kind, n, o.raddr, e.peer.PID, errno, status)
}

//go:noinline
func errEnded(pid int) error {
	return statuserr.Errorf(ucs.ErrConnectionReset, "cma: process %d has ended", pid)
}
