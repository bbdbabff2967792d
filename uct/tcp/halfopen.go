package tcp

import (
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/ucs/log"
)

// halfOpen is a connection's place in the list of those that have not asked for
// anything yet.
type halfOpen struct {
	prev, next *conn
	deadline   time.Duration // by the clock of the worker
	listed     bool
}

// halfOpenList holds those connections of a worker, the oldest first. Each gets
// a limited time; when there are too many, one of the source with the most goes.
type halfOpenList struct {
	head, tail *conn
	n          int
	timer      *event.Timer
	armed      bool // timer runs
}

// waitForRequest lists a guest's connection.
func (s *service) waitForRequest(c *conn) {
	l, h, b := &s.half, &c.half, &c.iface.bounds
	h.deadline, h.listed = s.w.Now()+b.handshake, true
	h.prev = l.tail
	if l.tail != nil {
		l.tail.half.next = c
	} else {
		l.head = c
	}
	l.tail = c
	l.n++
	g := c.visit.guest
	if g.half++; g.half > b.halfOpen/2 {
		l.dropOldest(g)
	} else if l.n > b.halfOpen {
		s.evictHalfOpen()
	}
	s.timeHalfOpen()
}

// endHalfOpen takes c off the list, if it is there.
func (s *service) endHalfOpen(c *conn) {
	h := &c.half
	if !h.listed {
		return
	}
	l := &s.half
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
	c.visit.guest.half--
}

// evictHalfOpen closes the oldest connection of the source with the most in the list,
// and reports whether there was one.
func (s *service) evictHalfOpen() bool {
	var most *guest
	for _, g := range s.guests {
		if g.half > 0 && (most == nil || g.half > most.half) {
			most = g
		}
	}
	return most != nil && s.half.dropOldest(most)
}

func (l *halfOpenList) dropOldest(g *guest) bool {
	for c := l.head; c != nil; c = c.half.next {
		if c.visit.guest == g {
			c.dropHalfOpen(ledger.Connections)
			return true
		}
	}
	return false
}

func (c *conn) dropHalfOpen(r ledger.Reason) {
	if a := c.visit.guest.account; a.Refuse(r) {
		log.Diag("closing a connection that has not asked for anything", zap.Stringer("source", a.Source()), zap.Stringer("reason", r))
	}
	c.close()
}

// timeHalfOpen sets the timer to the first deadline, unless it runs already: the
// first one cannot become earlier.
func (s *service) timeHalfOpen() {
	l := &s.half
	if l.head == nil || l.armed {
		return
	}
	l.armed = true
	d := l.head.half.deadline - s.w.Now()
	if l.timer == nil {
		l.timer, _ = s.w.Timers().After(d, s.expireHalfOpen)
		return
	}
	l.timer.Reset(d)
}

// expireHalfOpen closes the connections whose time is over.
func (s *service) expireHalfOpen() {
	l := &s.half
	l.armed = false
	now := s.w.Now()
	for l.head != nil && l.head.half.deadline <= now {
		l.head.dropHalfOpen(ledger.Silence)
	}
	s.timeHalfOpen()
}

// stop ends what runs by the clock.
func (l *halfOpenList) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
