package list

// Node is the place of an element in a List, a Queue or a Stack. It is a field of the element. A
// node is in at most one list, queue or stack at a time. The zero value is in none, and is usable
// once Value is set.
type Node[T any] struct {
	// Value is the element that the node is a field of. It is set when the element is made, before
	// the first use of the node.
	Value *T

	next *Node[T] // the next node, nil for the last one; meaningless outside of lists
	prev *Node[T] // the previous node; for the first node of a List, the last one
	list *List[T] // the list that the node is in, nil for none
}

// Linked reports whether the node is in a List. It returns false for a node in a queue or a stack.
func (n *Node[T]) Linked() bool { return n.list != nil }

// In reports whether the node is in the list l.
func (n *Node[T]) In(l *List[T]) bool { return n.list == l }

// Next returns the next node, nil for the last one.
func (n *Node[T]) Next() *Node[T] { return n.next }

// Remove removes the node from its list. It panics if the node is in none.
func (n *Node[T]) Remove() {
	l, prev, next := n.list, n.prev, n.next
	if l.head == n { // panics if n is in no list
		l.head = next
	} else {
		prev.next = next
	}
	if next == nil {
		next = l.head
	}
	if next != nil {
		next.prev = prev
	}
	n.next, n.prev, n.list = nil, nil, nil
}

// List is a first-in-first-out list of elements with removal from the middle. The zero value is
// empty. A list that is not empty must not be copied.
type List[T any] struct {
	head *Node[T]
}

// Empty reports whether the list has no elements.
func (l *List[T]) Empty() bool { return l.head == nil }

// Front returns the node of the oldest element, nil if the list is empty.
func (l *List[T]) Front() *Node[T] { return l.head }

// Back returns the node of the newest element, nil if the list is empty.
func (l *List[T]) Back() *Node[T] {
	if l.head == nil {
		return nil
	}
	return l.head.prev
}

// Push adds a node at the end. It panics if the node is in a list.
func (l *List[T]) Push(n *Node[T]) {
	if n.prev != nil {
		panic(linkedTwice)
	}
	n.list, n.next = l, nil
	head := l.head
	if head == nil {
		l.head, n.prev = n, n
		return
	}
	n.prev = head.prev
	head.prev.next, head.prev = n, n
}

// PushFront adds a node at the front. It panics if the node is in a list.
func (l *List[T]) PushFront(n *Node[T]) {
	if n.prev != nil {
		panic(linkedTwice)
	}
	head := l.head
	n.list, n.next, n.prev = l, head, n
	if head != nil {
		n.prev, head.prev = head.prev, n
	}
	l.head = n
}

// Pop removes and returns the oldest element. It panics if the list is empty.
func (l *List[T]) Pop() *T {
	n := l.head
	n.Remove()
	return n.Value
}

// linkedTwice is the panic value of an addition of a node that is in a list already. It is converted
// to an interface once, because the checks are inlined.
var linkedTwice any = "list: a node was added that is in a list already"
