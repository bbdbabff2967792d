package uct

import "github.com/ucx-go/ucx/ucs"

// Pending is a send that returned ucs.ErrNoResource and waits in its endpoint's queue. It is
// embedded in the caller's request, so queueing allocates nothing. The transport owns it from
// PendingAdd until it is dispatched or purged.
type Pending struct {
	Owner PendingOwner

	next   *Pending
	queued bool
}

// PendingOwner retries a pending send.
type PendingOwner interface {
	// Dispatch is called when the send may succeed, and retries it. The result nil means that the
	// send is done: p leaves the queue. ucs.InProgress means some progress: p stays at the head and
	// is retried at once. Any other error means no progress: p stays at the head, and the scan of
	// this endpoint ends.
	Dispatch(p *Pending) error
}

// Queued reports whether p waits in a queue.
func (p *Pending) Queued() bool { return p.queued }

// PendingQueue is the pending queue of one endpoint, for use by transports. While it is not
// empty, the transport must refuse every new send except those of the dispatch itself, so that
// no send overtakes a queued one. The zero value is empty.
type PendingQueue struct {
	head, tail  *Pending
	purges      uint32
	dispatching bool
}

// Empty reports whether the queue is empty.
func (q *PendingQueue) Empty() bool { return q.head == nil }

// Blocks reports whether a new send must be refused because earlier sends are queued.
func (q *PendingQueue) Blocks() bool { return q.head != nil && !q.dispatching }

// Add appends p. It panics if p is already queued.
func (q *PendingQueue) Add(p *Pending) {
	if p.queued {
		panic("uct: pending request queued twice")
	}
	p.queued = true
	p.next = nil
	if q.tail == nil {
		q.head = p
	} else {
		q.tail.next = p
	}
	q.tail = p
}

// Dispatch retries the waiting requests, in order, until one cannot continue. It returns
// the number of requests that made progress. It does nothing inside a dispatch.
func (q *PendingQueue) Dispatch() int {
	n := 0
	for q.Step() {
		n++
	}
	return n
}

// Step retries the first request once and reports whether it made progress. It does nothing
// inside a dispatch.
func (q *PendingQueue) Step() bool {
	if q.head == nil || q.dispatching {
		return false
	}
	p, purges := q.head, q.purges
	q.dispatching = true
	err := p.Owner.Dispatch(p)
	q.dispatching = false
	if q.purges != purges {
		return false // the callback failed the endpoint and purged the queue: p has left it
	}
	if err == nil {
		q.pop()
	}
	return err == nil || err == ucs.InProgress
}

// Purge empties the queue, handing each request to fn in order.
func (q *PendingQueue) Purge(fn func(*Pending)) {
	q.purges++
	for q.head != nil {
		fn(q.pop())
	}
}

func (q *PendingQueue) pop() *Pending {
	p := q.head
	q.head = p.next
	if q.head == nil {
		q.tail = nil
	}
	p.next = nil
	p.queued = false
	return p
}
