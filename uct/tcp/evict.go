//go:build linux

package tcp

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
)

// Who has to leave when peers have more than they may is looked for in crowd.go.
// Connections on which the application has an endpoint are its own, and stay.

// makeRoom sees to it that a new connection of a guest may stay, and reports whether
// it may.
func (s *service) makeRoom(c *conn) bool {
	g, b := c.visit.guest, &c.iface.bounds
	total, most := ledger.Total(ledger.Conns), int64(b.guests)
	switch {
	case s.guests.n() > b.few && s.joinSiblings() != nil:
		c.dismiss(ledger.Descriptors, errFiles) // a crowd that nobody could ask
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

// yieldLooks bounds how many connections are looked at for one that is left over.
const yieldLooks = 1024

// yield gives the descriptor of a connection that was left to its peer when the
// application closed its endpoint to another endpoint of the application's, and reports
// whether there was one. Guests stay: the answers to established endpoints may come on their
// connections.
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

// overshoot is by how much a limit may be exceeded until another worker makes room.
func overshoot(limit int) int { return limit/16 + 1 }

// makeRoomForFile is makeRoom for a connection with a descriptor that is for the
// application: it takes the place of one that leaves, if that has one below.
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

// moveBelow gives a connection that nothing watches yet the descriptor of one that
// has left: otherwise the next one gets that, and both stay. If that one had none that
// is lower, this one has just taken its place.
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

// relieve drops connections of the source that has sent too many beginnings of
// frames: those first that brought nothing more for the longest.
func (s *service) relieve() {
	o := s.slow.over
	s.slow.over = nil
	g := o.visit.guest
	if g != nil && g.fresh > 0 {
		s.sort(g) // it is one user who has too much
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

// watchSlow makes the timer of slow connections; when it is needed there may be no
// descriptors.
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

// lookAtSlow drops connections that have brought nothing for too long.
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
