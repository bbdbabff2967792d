//go:build linux

package tcp

// queue is a doubly linked list of connections. The function links returns a connection's links in
// this queue.
type queue struct {
	head, tail *conn
	n          int
	links      func(*conn) *links
	past       *conn // connections up to this one are skipped by guestList.look; nil: none
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

// after returns the connection behind c, the first one if c is nil.
func (q *queue) after(c *conn) *conn {
	if c == nil {
		return q.head
	}
	return q.links(c).next
}

func (q *queue) remove(c *conn) {
	l := q.links(c)
	if q.past == c {
		q.past = l.prev
	}
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
