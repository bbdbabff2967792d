//go:build linux

package flow

// An endpoint is in up to two lists at a time: the list of endpoints that owe packets, and one of
// the lists of endpoints that may be evicted or expire, embryos or closed ones, the oldest first.
const (
	linkReady = iota
	linkAge
	links
)

type link struct {
	prev, next *Endpoint
	on         bool
}

type list struct {
	first, last *Endpoint
	n           int
}

// push appends an endpoint. An endpoint that is in the list already is not moved.
func (l *list) push(e *Endpoint, which int) {
	k := &e.links[which]
	if k.on {
		return
	}
	*k = link{prev: l.last, on: true}
	if l.last != nil {
		l.last.links[which].next = e
	} else {
		l.first = e
	}
	l.last = e
	l.n++
}

// drop removes an endpoint if it is in the list.
func (l *list) drop(e *Endpoint, which int) {
	k := &e.links[which]
	if !k.on {
		return
	}
	if k.prev != nil {
		k.prev.links[which].next = k.next
	} else {
		l.first = k.next
	}
	if k.next != nil {
		k.next.links[which].prev = k.prev
	} else {
		l.last = k.prev
	}
	*k = link{}
	l.n--
}
