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

// end ends all requests with err, oldest first. Callbacks run.
func (l *requestList) end(err error) {
	for r := l.pop(); r != nil; r = l.pop() {
		r.abort(err)
	}
}

// endOf ends those of one endpoint.
func (l *requestList) endOf(ep *Endpoint, err error) {
	for r := l.head; r != nil; {
		next := r.next
		if r.ep == ep {
			l.remove(r)
			r.abort(err)
			next = l.head // callbacks may have changed the list
		}
		r = next
	}
}
