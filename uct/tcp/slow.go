//go:build linux

package tcp

import (
	"time"

	"github.com/ucx-go/ucx/ucs/event"
)

// slowList holds the guests' connections that have sent the beginning of a frame,
// those first that have brought nothing more for the longest: each keeps a buffer, and the rest may never come. A peer
// that is stopped is alive, so time counts only against those on which we have no
// endpoint; what one source makes us keep is bounded in any case.
type slowList struct {
	head, tail *conn
	over       *conn // its source has too much; for the end of the read
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

// stallLooks is the number of periods in the time that the rest of a frame, or the answer
// in a handshake, may take: a worker that is not progressed meanwhile counts one.
const stallLooks = 4

// add lists a connection that keeps a buffer of so many bytes. moved says that some have
// just come. What a connection keeps that we do not read ourselves is not its doing.
func (l *slowList) add(c *conn, bytes int, moved bool) {
	g := c.visit.guest
	if g == nil || c.paused {
		l.remove(c)
		return
	}
	s := &c.slow
	if s.bytes != 0 && moved {
		l.remove(c) // to the end of the list
	}
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
		l.over = c
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
