// Package queue holds the queue by which goroutines hand objects to the one that
// owns something. It takes no locks and allocates nothing: the links are inside
// the objects.
package queue

import "sync/atomic"

// Node is the link of a T in an MPSC. Embed it in the type that is queued, once
// for each queue an object can be in at the same time. The zero value is ready.
type Node[T any] struct {
	next  *Node[T] // toward older nodes in the shared list, newer ones in the consumer's
	value *T       // nil while not queued
}

// Queued reports whether the node is in a queue. Only whoever would be allowed
// to push it may ask.
func (n *Node[T]) Queued() bool { return n.value != nil }

// MPSC is a first-in first-out queue with many producers and one consumer.
// Objects of one producer come out in the order they were pushed. Any goroutine
// may call Push and Pending; Pop and Empty belong to one goroutine at a time,
// and whoever passes that role on orders the memory of the two. The zero value
// is empty.
//
// Producers put nodes before the newest one with one compare-and-swap, so that
// at every moment the list is whole: a consumer never meets an object that is
// half pushed. The consumer takes the whole list with one swap and turns it
// round. Nobody compares a node that is taken, hence no ABA problem.
type MPSC[T any] struct {
	newest atomic.Pointer[Node[T]] // shared list, newest first
	_      [56]byte                // producers do not disturb the consumer's cache line
	oldest *Node[T]                // taken by the consumer, oldest first
}

// Push appends v, whose link is n. It reports whether nothing was pending, which
// is when a sleeping consumer needs to be told. Pushing a node that is queued is
// a programming error and panics where it can be seen.
func (q *MPSC[T]) Push(n *Node[T], v *T) (first bool) {
	if n.value != nil {
		panic("queue: object is queued already")
	}
	n.value = v
	for {
		old := q.newest.Load()
		n.next = old
		if q.newest.CompareAndSwap(old, n) {
			return old == nil
		}
	}
}

// Pop removes the oldest object and returns it, nil from an empty queue. The
// object may be pushed again at once.
func (q *MPSC[T]) Pop() *T {
	n := q.oldest
	if n == nil {
		if n = q.take(); n == nil {
			return nil
		}
	}
	v := n.value
	q.oldest = n.next
	n.next, n.value = nil, nil
	return v
}

// take takes the shared list and turns it round.
func (q *MPSC[T]) take() *Node[T] {
	if q.newest.Load() == nil {
		return nil // reading is cheaper than swapping
	}
	var oldest *Node[T]
	for n := q.newest.Swap(nil); n != nil; {
		n.next, oldest, n = oldest, n, n.next
	}
	return oldest
}

// Empty reports whether Pop would return nil now.
func (q *MPSC[T]) Empty() bool { return q.oldest == nil && q.newest.Load() == nil }

// Pending reports whether something was pushed since the consumer last ran out
// of objects. A consumer that has popped all and gives up its role asks it
// afterwards, and takes the role again if so: nothing is left behind.
func (q *MPSC[T]) Pending() bool { return q.newest.Load() != nil }
