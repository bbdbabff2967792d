//go:build linux

package tcp

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
)

// Eviction at a limit. crowd.go chooses the connection that is evicted when peers exceed a
// limit. Connections on which the application has an endpoint belong to the application and
// are never evicted.

// makeRoom checks the limits for a new connection of a guest. At a limit it evicts another
// connection, or asks other workers to evict one, or drops the new one. It reports whether the
// new connection stays.
func (s *service) makeRoom(c *conn) bool {
	g, b := c.visit.guest, &c.iface.bounds
	total, most := ledger.Total(ledger.Conns), int64(b.guests)
	switch {
	case s.guests.n() > b.few && s.joinSiblings() != nil:
		c.dismiss(ledger.Descriptors, errFiles) // no other worker could ask this one to evict
	case int(c.fd) >= s.ceiling:
		s.makeRoomForFile(c)
	case g.count() > b.guestsOfSource:
		few := g.conns.n <= b.few && g.count() <= b.guestsOfSource+overshoot(b.guestsOfSource)
		if !few || !s.askSiblings() {
			s.guests.silent(g).dismiss(ledger.Connections, errCrowded)
		}
	case total > most:
		if !s.evict(c, ledger.Connections, errCrowded) && (!s.askSiblings() || total > most+int64(overshoot(b.guests))) {
			c.dismiss(ledger.Connections, errCrowded)
		}
	}
	return c.state != stateClosed
}

// yieldLooks bounds how many connections of each list yield examines.
const yieldLooks = 1024

// yield frees a descriptor for another endpoint of the application. It drops an outgoing
// connection that was left to its peer when the application closed its endpoint (halfClose),
// and reports whether there was one. Connections that peers made stay: the answers to
// established endpoints may come on them.
func (s *service) yield() bool {
	for _, q := range [...]*queue{&s.guests.mute, &s.guests.heard} {
		c := q.after(nil)
		for looks := 0; c != nil && looks < yieldLooks; looks++ {
			if c.outgoing && c.ep == nil && !c.reading {
				c.dismiss(ledger.Descriptors, errFiles)
				return true
			}
			c = q.after(c)
		}
	}
	return false
}

// overshoot returns by how much a limit may be exceeded until another worker makes room.
func overshoot(limit int) int { return limit/16 + 1 }

// makeRoomForFile is makeRoom for a connection whose descriptor is one of those reserved for
// the application. The connection moves to a lower descriptor if an eviction frees one.
func (s *service) makeRoomForFile(c *conn) {
	_, last := fileCeilings()
	switch few := c.iface.bounds.few; {
	case s.evictHalfOpen(few, few) || s.evict(c, ledger.Descriptors, errFiles):
		if c.state != stateClosed {
			c.moveBelow(s.ceiling)
		}
	case !s.askSiblings() || int(c.fd) >= last:
		c.dismiss(ledger.Descriptors, errFiles)
	}
}

// moveBelow moves a connection that no event set watches yet to the lowest free descriptor, if
// that is below ceiling. Without it the next connection would get the descriptor that an
// eviction has freed, and both would stay. If the freed descriptor is not below ceiling, the
// connection keeps its own.
func (c *conn) moveBelow(ceiling int) {
	fd, err := unix.FcntlInt(uintptr(c.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return
	}
	if fd >= ceiling {
		unix.Close(fd)
		return
	}
	unix.Close(int(c.fd))
	c.fd = int32(fd)
}

// relieve drops connections of the source whose incomplete frames take more bytes than
// bounds.beginnings, in the order of slowList: those that brought nothing more for the longest
// first.
func (s *service) relieve() {
	o := s.slow.over
	s.slow.over = nil
	g := o.visit.guest
	if g != nil && g.fresh > 0 {
		s.sort(g) // only one user of the address may have too much
		g = o.visit.guest
	}
	if g == nil {
		return
	}
	for c := s.slow.head; c != nil && g.conns.n > 0 && g.held > o.iface.bounds.beginnings; {
		next := c.slow.next
		if c.visit.guest == g && !c.reading {
			c.dismiss(ledger.Silence, errBegun)
			next = s.slow.head
		}
		c = next
	}
}

// watchSlow makes the timer of slow connections, and sets its period. The timer is made in
// advance, because there may be no descriptors when it is needed.
func (s *service) watchSlow(limit time.Duration) (err error) {
	l := &s.slow
	if l.timer == nil {
		if l.timer, err = s.w.Timers().After(time.Hour, s.lookAtSlow); err != nil {
			return err
		}
		l.timer.Stop()
	}
	l.period = max(limit/stallLooks, 1)
	return nil
}

// lookAtSlow is called by the timer. It drops the listed connections that have brought nothing
// for stallLooks periods, unless they have an endpoint, are paused or are being read.
func (s *service) lookAtSlow() {
	l := &s.slow
	l.armed = false
	for c := l.head; c != nil; {
		next := c.slow.next
		if c.slow.looks++; c.slow.looks >= stallLooks {
			c.slow.looks = stallLooks
			if c.ep == nil && !c.paused && !c.reading {
				c.dismiss(ledger.Silence, errStalled)
			}
		}
		c = next
	}
	if l.head != nil {
		l.armed = l.timer.Reset(l.period) == nil
	}
}
