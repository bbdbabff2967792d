package tcp

import (
	"errors"
	"fmt"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
)

// Who has to leave when peers have more than they may: of the source with the most,
// the connection that was silent for the longest. Connections on which the
// application has an endpoint are its own, and stay.

var (
	errCrowded = errors.New("the peer's address has too many connections")
	errFiles   = errors.New("the rest of the descriptors is for the application")
	errStalled = errors.New("the rest of a frame did not come")
)

// dismiss drops a connection for what its source has too much of.
func (c *conn) dismiss(r ledger.Reason, why error) {
	if g := c.visit.guest; g != nil && g.account.Refuse(r) {
		log.Warn("dropping the connection of a peer", zap.Stringer("source", g.account.Source()),
			zap.Int("connections", g.count()), zap.Error(why))
	}
	c.refuse(fmt.Errorf("%w: %w", why, ucs.ErrNoResource))
}

// makeRoom sees to it that a new connection of a guest may stay, and reports whether
// it may.
func (s *service) makeRoom(c *conn) bool {
	g, b := c.visit.guest, &c.iface.bounds
	switch {
	case int(c.fd) >= s.ceiling:
		evicted := s.evictHalfOpen() || s.evict(ledger.Descriptors, errFiles)
		if c.state == stateClosed {
			return false
		}
		if !evicted || !c.moveBelow(s.ceiling) {
			c.dismiss(ledger.Descriptors, errFiles)
		}
	case g.count() > b.guestsOfSource:
		g.silent().dismiss(ledger.Connections, errCrowded)
	case ledger.Total(ledger.Conns) > int64(b.guests):
		// If those with many are guests of other workers, which know nothing of this, a
		// newcomer is let in all the same.
		if !s.evict(ledger.Connections, errCrowded) && g.count() > b.few {
			c.dismiss(ledger.Connections, errCrowded)
		}
	}
	return c.state != stateClosed
}

// moveBelow gives a connection that nothing watches yet the descriptor of one that
// has left: otherwise the next one gets that, and both stay.
func (c *conn) moveBelow(ceiling int) bool {
	fd, err := unix.FcntlInt(uintptr(c.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return false
	}
	if fd >= ceiling {
		unix.Close(fd)
		return false
	}
	unix.Close(int(c.fd))
	c.fd = int32(fd)
	return true
}

// evict drops a connection of the source with the most, if it has more than a few.
func (s *service) evict(r ledger.Reason, why error) bool {
	g := s.greediest()
	if g == nil || g.count() <= g.head.iface.bounds.few {
		return false
	}
	g.silent().dismiss(r, why)
	return true
}

// relieve drops connections of the source that has sent too many beginnings of
// frames, those that began first.
func (s *service) relieve() {
	g := s.slow.over
	s.slow.over = nil
	for c := s.slow.head; c != nil && g.n > 0 && g.held > c.iface.bounds.beginnings; {
		next := c.slow.next
		if c.visit.guest == g && !c.reading {
			c.dismiss(ledger.Silence, errStalled)
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
