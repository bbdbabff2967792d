//go:build linux

package cma

import (
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct/internal/kit"
)

// take returns a record for an operation; nil: there are as many as may be.
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

// give takes a record back.
func (i *iface) give(o *op) {
	i.ops--
	o.reset()
	o.next = i.free
	i.free = o
}

// activate makes sure that the endpoint gets turns.
func (e *endpoint) activate() {
	if !e.place.Listed() {
		e.iface.active.Add(&e.place, e)
	}
}

// work is a round of progress: a turn for each active endpoint, and more turns
// while there is a quota of pieces left; then pending requests, for whom there are
// records again, and failures.
func (i *iface) work() int {
	events := 0
	i.watcher.Settle()
	for quota := i.opts.quota; quota > 0 && i.active.Len() > 0; {
		e := i.active.Next()
		i.active.Remove(&e.place)
		done, copied := e.turn()
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

// turn copies a piece for an endpoint and tells completions. It returns the number of
// events and whether it copied. Whatever it calls may close the endpoint.
func (e *endpoint) turn() (events int, copied bool) {
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
			e.over(nil)
		}
	}
	for e.queue.head != nil && e.queue.head.kind == opFlush {
		events++
		e.over(nil)
	}
	return events, copied
}

// Room implements kit.Sender: records of operations are those of all endpoints.
func (e *endpoint) Room() kit.Room {
	switch {
	case e.end != nil:
		return kit.Full
	case e.iface.ops >= e.iface.opts.maxOps:
		return kit.Exhausted
	}
	return kit.Open
}

// copyPiece copies a piece of the first operation. When that cannot be done it
// fails the endpoint and returns false.
func (e *endpoint) copyPiece(o *op) bool {
	if e.lost() {
		return false
	}
	n, errno := o.piece(e.peer.PID, e.iface.opts.segSize)
	if errno == 0 && n == 0 {
		errno = unix.EIO // it would go on for ever
	}
	if errno != 0 {
		e.fail(e.accessError(o, errno))
		return false
	}
	o.advance(n)
	return true
}

// over ends the first operation and tells its completion, if there is one.
func (e *endpoint) over(err error) {
	o := e.queue.pop()
	c := o.comp
	e.iface.give(o)
	if c != nil {
		c.Done(err)
	}
}

// drop ends all operations with an error.
func (e *endpoint) drop(err error) {
	for e.queue.head != nil {
		e.over(err)
	}
}

// fail ends the endpoint; progress tells everybody.
func (e *endpoint) fail(err error) {
	e.end, e.failure = err, true
	e.iface.waiting.Leave(&e.pending)
	e.iface.failures.Add(&e.iface.reporter, e, err)
}

// Over implements kit.Failing.
func (e *endpoint) Over(err error) (userData any, tell bool) {
	e.drop(err)
	return e.user, !e.closed
}
