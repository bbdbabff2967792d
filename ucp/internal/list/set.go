package list

// Member is the place of an element in a Set. It is a field of the element. A member is in at most
// one set at a time. The zero value is in none, and is usable once Value is set.
type Member[T any] struct {
	// Value is the element that the member is a field of. It is set when the element is made,
	// before the first use of the member.
	Value *T

	next *Member[T]
	back **Member[T] // the pointer to this member: the previous member's next, or the set's head
}

// Next returns the next member, nil for the last one.
func (m *Member[T]) Next() *Member[T] { return m.next }

// Remove removes the member from its set. It panics if the member is in none.
func (m *Member[T]) Remove() {
	*m.back = m.next // panics if m is in no set
	if m.next != nil {
		m.next.back = m.back
	}
	m.next, m.back = nil, nil
}

// Set is a list without a defined order. The zero value is empty. A set that is not empty must not
// be copied.
type Set[T any] struct {
	head *Member[T] // the member that was added last
}

// Empty reports whether the set has no elements.
func (s *Set[T]) Empty() bool { return s.head == nil }

// First returns the member that was added last, nil if the set is empty.
func (s *Set[T]) First() *Member[T] { return s.head }

// Add adds a member. It panics if the member is in a set.
func (s *Set[T]) Add(m *Member[T]) {
	if m.back != nil {
		panic(linkedTwice)
	}
	head := s.head
	if head != nil {
		head.back = &m.next
	}
	m.next, m.back, s.head = head, &s.head, m
}
