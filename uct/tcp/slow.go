package tcp

import (
	"time"

	"github.com/ucx-go/ucx/ucs/event"
)

// slowList holds the guests' connections that have sent the beginning of a frame,
// in the order they began: each keeps a buffer, and the rest may never come. A peer
// that is stopped is alive, so time counts only against those on which we have no
// endpoint; what one source makes us keep is bounded in any case.
type slowList struct {
	head, tail *conn
	over       *guest // has too much; for the end of the read
	timer      *event.Timer
	armed      bool // timer runs
	period     time.Duration
}

// slowness is a connection's place in the list.
type slowness struct {
	prev, next *conn
	bytes      int  // of the buffer; 0: not listed
	looks      int8 // periods that brought nothing
}

// stallLooks is the number of periods in the time that the rest of a frame may take.
const stallLooks = 4

// add lists a connection that keeps a buffer of so many bytes, or notes that it is
// moving.
func (l *slowList) add(c *conn, bytes int) {
	g := c.visit.guest
	if g == nil {
		return
	}
	s := &c.slow
	s.looks = 0
	g.held += bytes - s.bytes
	if s.bytes == 0 {
		s.prev = l.tail
		if l.tail != nil {
			l.tail.slow.next = c
		} else {
			l.head = c
		}
		l.tail = c
		if !l.armed && l.timer != nil {
			l.armed = l.timer.Reset(l.period) == nil
		}
	}
	s.bytes = bytes
	if g.held > c.iface.bounds.beginnings {
		l.over = g
	}
}

// remove is told that the frame is whole, or does not matter any more.
func (l *slowList) remove(c *conn) {
	s := &c.slow
	if s.bytes == 0 {
		return
	}
	c.visit.guest.held -= s.bytes
	if s.prev != nil {
		s.prev.slow.next = s.next
	} else {
		l.head = s.next
	}
	if s.next != nil {
		s.next.slow.prev = s.prev
	} else {
		l.tail = s.prev
	}
	*s = slowness{}
}

func (l *slowList) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
