//go:build linux

package cma

import (
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct/kit"
)

// take returns an empty op struct from the free list, or nil if the limit of outstanding operations
// is reached.
func (i *iface) take() *op {
	if i.ops >= i.opts.maxOps {
		return nil
	}
	i.ops++
	o := i.free
	if o == nil {
		return &op{bufs: make([][]byte, 0, min(i.opts.maxIOV, maxVec))}
	}
	i.free, o.next = o.next, nil
	return o
}

// freeOp returns an op struct to the free list.
func (i *iface) freeOp(o *op) {
	i.ops--
	o.reset()
	o.next = i.free
	i.free = o
}

// activate adds the endpoint to the iface's list of active endpoints, for which progress copies,
// unless it is listed already.
func (e *endpoint) activate() {
	if !e.place.Listed() {
		e.iface.active.Add(&e.place, e)
	}
}

// work is a round of progress. It calls serve for the active endpoints, round robin, until the quota
// of copies is used up or no endpoint is active. Then it retries pending requests, because op
// structs may be free again, and reports failures.
func (i *iface) work() int {
	events := 0
	i.watcher.Settle()
	for quota := i.opts.quota; quota > 0 && i.active.Len() > 0; {
		e := i.active.Next()
		i.active.Remove(&e.place)
		done, copied := e.serve()
		events += done
		if copied {
			quota--
		}
		if e.end == nil && e.queue.head != nil {
			e.activate()
		}
	}
	return events + i.waiting.Dispatch() + i.failures.Report()
}

// serve makes one copy for an endpoint and calls completions. It returns the number of events, and
// whether it tried to copy. The completions may close the endpoint.
func (e *endpoint) serve() (events int, copied bool) {
	if e.end != nil {
		return 0, false
	}
	if o := e.queue.head; o != nil && o.kind != opFlush {
		copied = true
		events++
		if !e.copyPiece(o) {
			return events, true
		}
		if o.left == 0 {
			e.completeFirst(nil)
		}
	}
	for e.queue.head != nil && e.queue.head.kind == opFlush {
		events++
		e.completeFirst(nil)
	}
	return events, copied
}

// Room implements kit.Sender. The limit of outstanding operations holds for all endpoints of the
// iface together.
func (e *endpoint) Room() kit.Room {
	switch {
	case e.end != nil:
		return kit.Full
	case e.iface.ops >= e.iface.opts.maxOps:
		return kit.Exhausted
	}
	return kit.Open
}

// copyPiece makes one copy for o, the first operation of the queue. If that fails, it makes the
// endpoint fail and returns false.
func (e *endpoint) copyPiece(o *op) bool {
	if e.lost() {
		return false
	}
	n, errno := o.copyOnce(e.peer.PID, e.iface.opts.segSize)
	if errno == 0 && n == 0 {
		errno = unix.EIO // otherwise it would be tried again forever
	}
	if errno != 0 {
		e.fail(e.accessError(o, errno))
		return false
	}
	o.advance(n)
	return true
}

// completeFirst removes the first operation from the queue and completes it with err.
func (e *endpoint) completeFirst(err error) {
	o := e.queue.pop()
	c := o.comp
	e.iface.freeOp(o)
	if c != nil {
		c.Done(err)
	}
}

// drop completes all operations with err.
func (e *endpoint) drop(err error) {
	for e.queue.head != nil {
		e.completeFirst(err)
	}
}

// fail makes the endpoint accept no operations any more. Progress completes its operations with err
// and reports the failure.
func (e *endpoint) fail(err error) {
	e.end, e.failure = err, true
	e.iface.waiting.Leave(&e.pending)
	e.iface.failures.Add(&e.iface.reporter, e, err)
}

// Over implements kit.Failing.
func (e *endpoint) Over(err error) (userData any, report bool) {
	e.drop(err)
	return e.user, !e.closed
}
