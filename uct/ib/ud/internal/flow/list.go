//go:build linux

package flow

// Endpoints are in up to two lists at a time: of those that owe packets, and of those
// that shall go some day, the oldest first: embryos or closed ones.
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

// push appends an endpoint that may be there already. It is not moved then.
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

// drop takes out an endpoint that may be there.
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
