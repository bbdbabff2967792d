package kit

import "github.com/ucx-go/ucx/uct"

// A send needs resources of its endpoint, such as room at the peer, and resources that all
// endpoints of the iface share, such as slots of a completion queue. A request that got
// ucs.ErrNoResource waits in the FIFO queue of its endpoint. The iface's arbiter serves the
// endpoints round-robin, one request at a time, so that no endpoint can keep the shared
// resources from the others. If the shared resources run out, the endpoint whose turn it is
// keeps its turn for the next dispatch.

// Room is the availability of resources for sending.
type Room uint8

// Values of Room.
const (
	Open      Room = iota // a request may be retried
	Full                  // this endpoint cannot send
	Exhausted             // no endpoint of the iface can send: the dispatch ends
)

// Sender is the arbiter's view of an endpoint.
type Sender interface {
	// Room returns whether sending is possible. It may fail the endpoint, which then leaves the
	// arbiter.
	Room() Room
}

// Queue holds the pending requests of one endpoint and the endpoint's node in the arbiter. The
// zero value is empty.
type Queue struct {
	uct.PendingQueue
	node   Node[*Queue]
	sender Sender
}

// Arbiter schedules the endpoints of an iface that have pending requests. The zero value is
// empty. Add, Purge and Leave may be called during Dispatch, for any queue.
type Arbiter struct {
	ring    Ring[*Queue]
	running bool
}

// Empty reports whether no endpoint has pending requests.
func (a *Arbiter) Empty() bool { return a.ring.n == 0 }

// Running reports whether Dispatch is running.
func (a *Arbiter) Running() bool { return a.running }

// Add appends p to q, the queue of s.
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

// Leave removes a queue from the arbiter, so that its requests are not dispatched any more. The
// requests stay in the queue until they are purged.
func (a *Arbiter) Leave(q *Queue) { a.ring.Remove(&q.node) }

// All reports whether fn returns true for every endpoint with pending requests. It stops at the
// first endpoint for which fn returns false; fn may remove that endpoint from the arbiter.
func (a *Arbiter) All(fn func(Sender) bool) bool {
	return a.ring.All(func(q *Queue) bool { return fn(q.sender) })
}

// NoRoom reports whether a sender cannot send now. It can be passed to Arbiter.All.
func NoRoom(s Sender) bool { return s.Room() != Open }

// Dispatch retries requests while resources are available, and returns the number of attempts
// that made progress. A nested call does nothing.
func (a *Arbiter) Dispatch() int {
	if a.running {
		return 0
	}
	a.running = true
	n, idle := 0, 0 // idle: consecutive turns without progress
	for idle < a.ring.n {
		q := a.ring.Next()
		room := q.sender.Room()
		if room == Exhausted {
			break
		}
		if !q.node.Listed() {
			continue // Room has failed the endpoint
		}
		if room == Open && q.Step() {
			n, idle = n+1, 0
		} else if idle++; room == Open && q.node.Listed() && q.sender.Room() == Exhausted {
			break // the endpoint keeps its turn
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
