package tcp

import (
	"time"

	"github.com/ucx-go/ucx/ucs/event"
)

// halfOpen is a connection's place in the list of those that have not asked for
// anything yet.
type halfOpen struct {
	prev, next *conn
	deadline   time.Duration // by the clock of the worker
	listed     bool
}

// halfOpenList holds those connections of an iface, the oldest first. Each gets
// a limited time; when there are too many the oldest goes.
type halfOpenList struct {
	head, tail *conn
	n          int
	timer      *event.Timer
	armed      bool // timer runs
}

func (l *halfOpenList) add(c *conn) {
	h := &c.half
	h.deadline, h.listed = c.iface.svc.w.Now()+c.iface.bounds.handshake, true
	h.prev = l.tail
	if l.tail != nil {
		l.tail.half.next = c
	} else {
		l.head = c
	}
	l.tail = c
	if l.n++; l.n > c.iface.bounds.halfOpen {
		l.evict()
	}
	l.schedule(c.iface)
}

// endHalfOpen takes c off the list, if it is there.
func (i *iface) endHalfOpen(c *conn) {
	h := &c.half
	if !h.listed {
		return
	}
	l := &i.half
	if h.prev != nil {
		h.prev.half.next = h.next
	} else {
		l.head = h.next
	}
	if h.next != nil {
		h.next.half.prev = h.prev
	} else {
		l.tail = h.prev
	}
	*h = halfOpen{}
	l.n--
}

// evict closes the oldest connection and reports whether there was one.
func (l *halfOpenList) evict() bool {
	if l.head == nil {
		return false
	}
	l.head.close()
	return true
}

// schedule sets the timer to the first deadline, unless it runs already: the
// first one cannot become earlier.
func (l *halfOpenList) schedule(i *iface) {
	if l.head == nil || l.armed {
		return
	}
	l.armed = true
	d := l.head.half.deadline - i.svc.w.Now()
	if l.timer == nil {
		l.timer, _ = i.svc.w.Timers().After(d, func() { i.half.expire(i) })
		return
	}
	l.timer.Reset(d)
}

// expire closes the connections whose time is over.
func (l *halfOpenList) expire(i *iface) {
	l.armed = false
	now := i.svc.w.Now()
	for l.head != nil && l.head.half.deadline <= now {
		l.head.close()
	}
	l.schedule(i)
}

func (l *halfOpenList) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
