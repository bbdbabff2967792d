package tcp

// queue is a list of connections in which each has a place, which links finds.
type queue struct {
	head, tail *conn
	n          int
	links      func(*conn) *links
}

// links is a connection's place in a queue.
type links struct{ prev, next *conn }

func (q *queue) append(c *conn) {
	l := q.links(c)
	l.prev, l.next = q.tail, nil
	if q.tail != nil {
		q.links(q.tail).next = c
	} else {
		q.head = c
	}
	q.tail = c
	q.n++
}

func (q *queue) remove(c *conn) {
	l := q.links(c)
	if l.prev != nil {
		q.links(l.prev).next = l.next
	} else {
		q.head = l.next
	}
	if l.next != nil {
		q.links(l.next).prev = l.prev
	} else {
		q.tail = l.prev
	}
	*l = links{}
	q.n--
}
