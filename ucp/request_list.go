package ucp

// requestList is a FIFO of requests with removal from the middle.
type requestList struct {
	head, tail *Request
}

func (l *requestList) push(r *Request) {
	r.list = l
	r.prev, r.next = l.tail, nil
	if l.tail == nil {
		l.head = r
	} else {
		l.tail.next = r
	}
	l.tail = r
}

func (l *requestList) remove(r *Request) {
	if r.prev == nil {
		l.head = r.next
	} else {
		r.prev.next = r.next
	}
	if r.next == nil {
		l.tail = r.prev
	} else {
		r.next.prev = r.prev
	}
	r.list, r.prev, r.next = nil, nil, nil
}

// unpop puts back what was popped.
func (l *requestList) unpop(r *Request) {
	r.list = l
	r.prev, r.next = nil, l.head
	if l.head == nil {
		l.tail = r
	} else {
		l.head.prev = r
	}
	l.head = r
}

// pop removes and returns the oldest request, nil when the list is empty.
func (l *requestList) pop() *Request {
	r := l.head
	if r != nil {
		l.remove(r)
	}
	return r
}
