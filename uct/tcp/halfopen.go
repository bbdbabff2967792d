//go:build linux

package tcp

import (
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs/event"
)

// halfOpen is a connection's place in the list of connections whose request has not arrived.
type halfOpen struct {
	prev, next *conn
	deadline   time.Duration // by the clock of the worker
	listed     bool
}

// halfOpenList holds the connections of a worker whose request has not arrived, the oldest
// first. Each connection has a deadline. When there are too many connections, the oldest of the
// source or network with the most is closed.
type halfOpenList struct {
	head, tail *conn
	n          int
	timer      *event.Timer
	armed      bool // timer runs
}

// waitForRequest adds a guest's connection to the list, and closes one if there are too many.
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
	g.halve(1)
	if g.half > b.halfOpen/2 {
		l.dropOldest(g, nil)
	} else if l.n > b.halfOpen {
		s.evictHalfOpen(0, b.few)
	}
	s.timeHalfOpen()
}

// endHalfOpen removes c from the list, if it is listed.
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
	c.visit.guest.halve(-1)
}

// evictHalfOpen closes the oldest listed connection of the source or network that has the most
// listed connections. The count of a network is divided by few for each of its levels, as in
// ledger.Crowded. Only sources and networks with more than many connections count;
// evictHalfOpen reports whether there was one.
func (s *service) evictHalfOpen(many, few int) bool {
	var most *guest
	var where *hood
	weight := 0
	for c := s.half.head; c != nil; c = c.half.next {
		g := c.visit.guest
		if g.half > many && g.half > weight {
			most, where, weight = g, nil, g.half
		}
		share := 1
		for _, h := range g.hoods {
			share *= max(few, 1)
			if h.half > many && h.half/share > weight {
				most, where, weight = nil, h, h.half/share
			}
		}
	}
	return weight > 0 && s.half.dropOldest(most, where)
}

// dropOldest closes the oldest connection of a guest, or of the guests from a network.
func (l *halfOpenList) dropOldest(g *guest, h *hood) bool {
	for c := l.head; c != nil; c = c.half.next {
		if v := c.visit.guest; v == g || h != nil && slices.Contains(v.hoods, h) {
			c.dropHalfOpen(ledger.Connections)
			return true
		}
	}
	return false
}

func (c *conn) dropHalfOpen(r ledger.Reason) {
	if a := c.visit.guest.account; a.Refuse(r) {
		c.iface.svc.w.Log().Diag("closing a connection that has sent no request", zap.Stringer("source", a.Source()), zap.Stringer("reason", r))
	}
	c.close()
}

// timeHalfOpen sets the timer to the first deadline, unless the timer runs already: the first
// deadline cannot become earlier.
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

// expireHalfOpen closes the connections whose deadline has passed.
func (s *service) expireHalfOpen() {
	l := &s.half
	l.armed = false
	now := s.w.Now()
	for l.head != nil && l.head.half.deadline <= now {
		l.head.dropHalfOpen(ledger.Silence)
	}
	s.timeHalfOpen()
}

// stop stops the timer.
func (l *halfOpenList) stop() {
	if l.timer != nil {
		l.timer.Stop()
	}
}
