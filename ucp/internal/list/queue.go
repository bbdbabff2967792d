package list

import "github.com/ucx-go/ucx/internal/race"

// Queue is a first-in-first-out list that is linked in one direction only. It needs fewer
// instructions than a List, but the removal of an element that is not the first one searches the
// queue. The zero value is empty.
type Queue[T any] struct {
	head *Node[T]
	tail *Node[T] // the last node; meaningless if head is nil
}

// Empty reports whether the queue has no elements.
func (q *Queue[T]) Empty() bool { return q.head == nil }

// Front returns the node of the oldest element, nil if the queue is empty.
func (q *Queue[T]) Front() *Node[T] { return q.head }

// Push adds a node at the end. The node must be in no list.
func (q *Queue[T]) Push(n *Node[T]) {
	if race.Enabled {
		n.enter()
	}
	if q.head == nil { // assignments in a row have one write barrier
		n.next, q.head, q.tail = nil, n, n
		return
	}
	n.next, q.tail.next, q.tail = nil, n, n
}

// PushFront adds a node at the front. The node must be in no list.
func (q *Queue[T]) PushFront(n *Node[T]) {
	if race.Enabled {
		n.enter()
	}
	if q.head == nil {
		q.tail = n
	}
	n.next, q.head = q.head, n
}

// Pop removes and returns the oldest element. It panics if the queue is empty.
func (q *Queue[T]) Pop() *T {
	n := q.head
	if race.Enabled {
		n.leave()
	}
	q.head = n.next
	n.next = nil
	return n.Value
}

// Remove removes a node. It panics if the node is not in the queue.
func (q *Queue[T]) Remove(n *Node[T]) {
	if q.head == n {
		q.Pop()
		return
	}
	before := q.head
	for before.next != n { // panics at the end of the queue
		before = before.next
	}
	if race.Enabled {
		n.leave()
	}
	before.next, n.next = n.next, nil
	if q.tail == n {
		q.tail = before
	}
}

// Stack is a last-in-first-out list, for elements that are in no use. The zero value is empty.
type Stack[T any] struct {
	head *Node[T]
}

// Empty reports whether the stack has no elements.
func (s *Stack[T]) Empty() bool { return s.head == nil }

// Push adds a node on top. The node must be in no list.
func (s *Stack[T]) Push(n *Node[T]) {
	if race.Enabled {
		n.enter()
	}
	n.next, s.head = s.head, n
}

// Pop removes and returns the element on top. It panics if the stack is empty.
func (s *Stack[T]) Pop() *T {
	n := s.head
	if race.Enabled {
		n.leave()
	}
	s.head = n.next // n.next keeps its value until the node is added again: to clear it costs instructions
	return n.Value
}

// A node in a queue or a stack is not marked as such, because that would cost instructions in the
// path of every message. Only race builds mark it, by a reference to itself in the field prev, and
// check that a node which is added is in no list, queue or stack. The callers of enter and leave ask
// for race builds, because a call costs as much as the rest of some functions when the compiler
// decides what to inline, even if nothing is left of it.

// enter marks the node as an element of a queue or a stack.
func (n *Node[T]) enter() {
	if n.prev != nil {
		panic(linkedTwice)
	}
	n.prev = n
}

// leave undoes enter.
func (n *Node[T]) leave() { n.prev = nil }
