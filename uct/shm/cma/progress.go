package cma

import (
	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// activeList is the endpoints that have something to do, each once. The zero
// value is empty.
type activeList struct {
	first, last *endpoint
	count       int
}

func (l *activeList) push(e *endpoint) {
	if e.listed {
		return
	}
	e.listed = true
	if l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last = e
	l.count++
}

// pop removes the first. There must be one.
func (l *activeList) pop() *endpoint {
	e := l.first
	if l.first = e.next; l.first == nil {
		l.last = nil
	}
	e.next, e.listed = nil, false
	l.count--
	return e
}

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

// work is a round of progress: a turn for each active endpoint, and more turns
// while there is a quota of pieces left.
func (i *iface) work() int {
	events := 0
	for quota := i.opts.quota; quota > 0; {
		before := quota
		for n := i.active.count; n > 0 && quota > 0 && i.active.count > 0; n-- {
			e := i.active.pop()
			done, copied := e.turn()
			events += done
			if copied {
				quota--
			}
			if e.busy() {
				i.active.push(e)
			}
		}
		if quota == before {
			break
		}
	}
	return events
}

// busy reports whether the endpoint wants another turn.
func (e *endpoint) busy() bool {
	return !e.closed && (e.failed() && !e.reported || e.queue.head != nil || !e.pending.Empty() && e.end == nil)
}

// turn does one thing for an endpoint: it reports a failure, or copies a piece,
// tells completions and lets pending requests try. It returns the number of
// events and whether it copied. Whatever it calls may close the endpoint.
func (e *endpoint) turn() (events int, copied bool) {
	switch {
	case e.closed:
		return 0, false
	case e.failed():
		return e.report(), false
	}
	if o := e.queue.head; o != nil && o.kind != opFlush {
		copied = true
		if !e.copyPiece(o) {
			return 1 + e.report(), true
		}
		events++
		if o.left == 0 {
			e.over(nil)
		}
	}
	for e.queue.head != nil && e.queue.head.kind == opFlush {
		events++
		e.over(nil)
	}
	if e.end == nil {
		events += e.pending.Dispatch()
	}
	return events, copied
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
		e.end, e.failure = e.accessError(o, errno), true
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

// report tells everybody about the failure of the endpoint: its operations, then
// its user.
func (e *endpoint) report() int {
	if e.reported {
		return 0
	}
	e.reported = true
	e.drop(e.end)
	if !e.closed {
		e.iface.onError(e, e.user, e.end)
	}
	return 1
}

// logFailure is what happens to a failure nobody handles.
func (i *iface) logFailure(_ uct.Endpoint, _ any, err error) {
	log.Write(i.opts.failure, "endpoint failed", zap.Error(err))
}

// fail begins the failure of the endpoint; progress reports it.
func (e *endpoint) fail(err error) {
	e.end, e.failure = err, true
	e.iface.active.push(e)
}
