//go:build linux

package verbstest

// line is a line of queue pairs; each is in one at most.
type line struct{ first, last *qp }

func (l *line) add(q *qp) {
	q.in = l
	if l.last == nil {
		l.first = q
	} else {
		l.last.next = q
	}
	q.prev, q.next, l.last = l.last, nil, q
}

// leave takes q out of the line that it is in, if any.
func (q *qp) leave() {
	l := q.in
	if l == nil {
		return
	}
	if q.prev == nil {
		l.first = q.next
	} else {
		q.prev.next = q.next
	}
	if q.next == nil {
		l.last = q.prev
	} else {
		q.next.prev = q.prev
	}
	q.in, q.prev, q.next = nil, nil, nil
}
