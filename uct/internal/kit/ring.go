package kit

// Ring is a list of those who wait, in which turns go round. Its nodes are embedded in
// what waits, so being in one allocates nothing. The zero value is empty.
type Ring[T any] struct {
	next *Node[T] // whose turn it is
	n    int
}

// Node is a place in a ring. It is in one at most.
type Node[T any] struct {
	prev, next *Node[T] // nil when in no ring
	of         T
}

// Listed reports whether the node is in a ring.
func (n *Node[T]) Listed() bool { return n.next != nil }

// Len is the number of nodes.
func (r *Ring[T]) Len() int { return r.n }

// Next is whose turn it is. The ring must not be empty.
func (r *Ring[T]) Next() T { return r.next.of }

// Add puts a node that is in no ring where its turn comes last.
func (r *Ring[T]) Add(n *Node[T], of T) {
	if n.Listed() {
		panic("kit: node listed twice")
	}
	n.of = of
	if r.next == nil {
		n.prev, n.next, r.next = n, n, n
	} else {
		n.prev, n.next = r.next.prev, r.next
		n.prev.next, n.next.prev = n, n
	}
	r.n++
}

// Pass ends the turn of whoever has it.
func (r *Ring[T]) Pass() {
	if r.next != nil {
		r.next = r.next.next
	}
}

// All reports whether fn is true of everybody, in turn. The one of whom it is not may
// leave the ring in fn.
func (r *Ring[T]) All(fn func(T) bool) bool {
	n := r.next
	for range r.n {
		if !fn(n.of) {
			return false
		}
		n = n.next
	}
	return true
}

// Remove takes a node out. One that is not in the ring is left alone.
func (r *Ring[T]) Remove(n *Node[T]) {
	if !n.Listed() {
		return
	}
	if r.next == n {
		r.next = n.next
	}
	if r.next == n { // it was the only one
		r.next = nil
	}
	n.prev.next, n.next.prev = n.next, n.prev
	*n = Node[T]{}
	r.n--
}
