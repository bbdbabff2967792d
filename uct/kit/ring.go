package kit

// Ring is a circular list for round-robin scheduling. Its nodes are embedded in the listed
// objects, so adding one allocates nothing. The zero value is empty.
type Ring[T any] struct {
	next *Node[T] // node whose turn it is
	n    int
}

// Node is an element of a ring. It is in at most one ring.
type Node[T any] struct {
	prev, next *Node[T] // nil when in no ring
	of         T
}

// Listed reports whether the node is in a ring.
func (n *Node[T]) Listed() bool { return n.next != nil }

// Len returns the number of nodes.
func (r *Ring[T]) Len() int { return r.n }

// Next returns the object whose turn it is. The ring must not be empty.
func (r *Ring[T]) Next() T { return r.next.of }

// Add inserts a node such that its turn comes last. It panics if the node is in a ring.
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

// Pass ends the current turn.
func (r *Ring[T]) Pass() {
	if r.next != nil {
		r.next = r.next.next
	}
}

// All calls fn for the objects in the order of their turns and reports whether fn returned true
// for all of them. It stops when fn returns false; fn may remove that object from the ring.
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

// Remove removes a node. It does nothing if the node is in no ring.
func (r *Ring[T]) Remove(n *Node[T]) {
	if !n.Listed() {
		return
	}
	if r.next == n {
		r.next = n.next
	}
	if r.next == n { // n was the only node
		r.next = nil
	}
	n.prev.next, n.next.prev = n.next, n.prev
	*n = Node[T]{}
	r.n--
}
