package ucp

// links are the place of something in a list of its kind. Whoever embeds them can be
// in one list, which is a pointer to the first, and gives at, its own method place, to
// link and unlink.
type links[T any] struct{ prev, next *T }

func (l *links[T]) place() *links[T] { return l }

// link puts x at the beginning of a list.
func link[T any](head **T, x *T, at func(*T) *links[T]) {
	l := at(x)
	l.prev, l.next = nil, *head
	if l.next != nil {
		at(l.next).prev = x
	}
	*head = x
}

// unlink takes x out of it.
func unlink[T any](head **T, x *T, at func(*T) *links[T]) {
	l := at(x)
	if l.prev == nil {
		*head = l.next
	} else {
		at(l.prev).next = l.next
	}
	if l.next != nil {
		at(l.next).prev = l.prev
	}
	l.prev, l.next = nil, nil
}
