package kit

import "github.com/ucx-go/ucx/uct"

// Resources for sending are an endpoint's own (room at the peer), or its iface's, as
// slots of a completion queue that all its endpoints share. Requests that met
// ucs.ErrNoResource wait in the queue of their endpoint, where nothing overtakes; the
// arbiter of the iface gives the endpoints their turns, one request at a time, so
// that none can keep the others from what they share. Whose turn it is when the
// iface runs out has the first one afterwards.

// Room says what an endpoint could do now.
type Room uint8

// Answers.
const (
	Open      Room = iota // a request may try
	Full                  // not this endpoint
	Exhausted             // no endpoint of the iface: the round ends
)

// Sender is an endpoint as its arbiter knows it.
type Sender interface {
	// Room says whether sending is possible. It may fail the endpoint, which then
	// leaves the arbiter.
	Room() Room
}

// Queue is the pending requests of one endpoint and its place in the arbiter. The
// zero value is empty.
type Queue struct {
	uct.PendingQueue
	node   Node[*Queue]
	sender Sender
}

// Arbiter is the endpoints of an iface that have pending requests. The zero value is
// empty. Add, Purge and Leave may be called in the middle of Dispatch, for any queue.
type Arbiter struct {
	ring    Ring[*Queue]
	running bool
}

// Empty reports whether nothing waits.
func (a *Arbiter) Empty() bool { return a.ring.n == 0 }

// Running reports whether requests are being dispatched.
func (a *Arbiter) Running() bool { return a.running }

// Add appends p to the queue of s.
func (a *Arbiter) Add(q *Queue, s Sender, p *uct.Pending) {
	q.PendingQueue.Add(p)
	if !q.node.Listed() {
		q.sender = s
		a.ring.Add(&q.node, q)
	}
}

// Purge empties a queue, handing each request to fn in order.
func (a *Arbiter) Purge(q *Queue, fn func(*uct.Pending)) {
	q.PendingQueue.Purge(fn)
	if q.Empty() { // fn may have added some
		a.Leave(q)
	}
}

// Leave makes sure that requests of a queue are not dispatched any more. They stay
// in it until they are purged.
func (a *Arbiter) Leave(q *Queue) { a.ring.Remove(&q.node) }

// All reports whether fn is true of every endpoint that waits. The one of which it is
// not may leave in fn.
func (a *Arbiter) All(fn func(Sender) bool) bool {
	return a.ring.All(func(q *Queue) bool { return fn(q.sender) })
}

// Dispatch lets requests try again while there is room, and returns the number of
// attempts that made progress. Inside a dispatch it does nothing.
func (a *Arbiter) Dispatch() int {
	if a.running {
		return 0
	}
	a.running = true
	n, idle := 0, 0 // turns in a row that brought nothing
	for idle < a.ring.n {
		q := a.ring.Next()
		room := q.sender.Room()
		if room == Exhausted {
			break
		}
		if !q.node.Listed() {
			continue // it failed
		}
		if room == Open && q.Step() {
			n, idle = n+1, 0
		} else if idle++; room == Open && q.node.Listed() && q.sender.Room() == Exhausted {
			break // it keeps its turn
		}
		switch {
		case !q.node.Listed():
		case q.Empty():
			a.ring.Remove(&q.node)
		case a.ring.Next() == q:
			a.ring.Pass()
		}
	}
	a.running = false
	return n
}
