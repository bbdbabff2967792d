//go:build linux

package tcp

import (
	"time"

	"github.com/ucx-go/ucx/ucs/event"
)

// slowList holds the guests' connections that are in the middle of a frame, ordered by the time
// since they last sent something, the longest first. Each of them keeps a buffer, and the rest of
// the frame may never arrive. A stopped peer is alive, so the time is limited only for connections
// on which this side has no endpoint; the bytes that one source makes this worker buffer are
// limited in any case.
type slowList struct {
	head, tail *conn
	over       *conn // its source exceeds the limit of bytes; handled after the read
	timer      *event.Timer
	armed      bool          // timer runs
	period     time.Duration // period of the timer
}

// slowEntry is a connection's entry in slowList.
type slowEntry struct {
	prev, next *conn
	bytes      int  // bytes charged to the source for the buffer; 0: not listed
	looks      int8 // periods of the timer in which nothing arrived
}

// stallLooks is the number of periods into which the longest time for the rest of a frame, or for
// the peer's reply in a handshake, is divided. Time in which the application makes no progress
// counts as one period, however long it is.
const stallLooks = 4

// add lists a connection that keeps a buffer of the given number of bytes. moved says that some of
// them have just arrived. A paused connection is not listed: its buffer remains because this side
// does not read.
func (l *slowList) add(c *conn, bytes int, moved bool) {
	g := c.guestEntry.guest
	if g == nil || c.paused {
		l.remove(c)
		return
	}
	s := &c.slow
	if s.bytes != 0 && moved {
		l.remove(c) // add moves it to the end of the list
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
	if g.held > c.iface.bounds.partialBytes {
		l.over = c
	}
}

// remove takes a connection off the list, because its frame is complete or is not needed any more.
func (l *slowList) remove(c *conn) {
	s := &c.slow
	if s.bytes == 0 {
		return
	}
	c.guestEntry.guest.held -= s.bytes
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
	*s = slowEntry{}
}

func (l *slowList) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
