//go:build linux

package tcp

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
)

// Eviction at a limit. evictable chooses the connection that is evicted when peers exceed a
// limit. Connections on which the application has an endpoint belong to the application and
// are never evicted.

// makeRoom checks the limits for a new connection of a guest. At a limit it evicts another
// connection, or asks other workers to evict one, or drops the new one. It reports whether the
// new connection stays.
func (s *service) makeRoom(c *conn) bool {
	g, b := c.guestEntry.guest, &c.iface.bounds
	total, most := ledger.Total(ledger.Conns), int64(b.guests)
	switch {
	case s.guests.n() > b.few && s.joinSiblings() != nil:
		c.dismiss(ledger.Descriptors, errFiles) // no other worker could ask this one to evict
	case int(c.fd) >= s.ceiling:
		s.makeRoomForFile(c)
	case g.count() > b.guestsOfSource:
		few := g.conns.n <= b.few && g.count() <= b.guestsOfSource+overshoot(b.guestsOfSource)
		if !few || !s.askSiblings() {
			s.guests.silent(g).dismiss(ledger.Connections, errSourceLimit)
		}
	case total > most:
		if !s.evict(c, ledger.Connections, errSourceLimit) && (!s.askSiblings() || total > most+int64(overshoot(b.guests))) {
			c.dismiss(ledger.Connections, errSourceLimit)
		}
	}
	return c.state != stateClosed
}

// yieldLooks bounds how many connections of each list the method yield examines.
const yieldLooks = 1024

// yield frees a descriptor for another endpoint of the application. It drops an outgoing connection
// that has only received since the application closed its endpoint (halfClose), and reports whether
// there was one. It does not drop connections that peers made, because answers for established
// endpoints may arrive on them.
func (s *service) yield() bool {
	for _, q := range [...]*queue{&s.guests.neverActive, &s.guests.onceActive} {
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

// makeRoomForFile is makeRoom for a connection whose file descriptor number is one of those
// reserved for the application. If an eviction frees a lower number, the connection moves to it.
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

// moveBelow moves a connection that no event set watches yet to the lowest free descriptor, if that
// is below ceiling. Otherwise the next connection would get the descriptor that an eviction has
// freed, and both connections would stay. If the freed descriptor is not below ceiling, the
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
// bounds.partialBytes, until the limit is met. Connections that have received nothing for the longest
// time are dropped first (the order of slowList).
func (s *service) relieve() {
	o := s.slow.over
	s.slow.over = nil
	g := o.guestEntry.guest
	if g != nil && g.fresh > 0 {
		s.sort(g) // only one user of the address may have too much
		g = o.guestEntry.guest
	}
	if g == nil {
		return
	}
	for c := s.slow.head; c != nil && g.conns.n > 0 && g.held > o.iface.bounds.partialBytes; {
		next := c.slow.next
		if c.guestEntry.guest == g && !c.reading {
			c.dismiss(ledger.Silence, errBegun)
			next = s.slow.head
		}
		c = next
	}
}

// watchSlow makes the timer of slow connections, and sets its period. limit is the longest time
// without input in the middle of a frame. The timer is made in advance, because there may be no
// descriptors when it is needed.
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

// lookAtSlow is called by the timer. It drops the listed connections that have received nothing for
// stallLooks periods, unless they have an endpoint, are paused or are being read.
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

// Choice of the connection that is evicted for a new one. The crowd is the source, or the network
// with many addresses, that has the most connections of the process. Of the crowd's connections,
// one that has never carried anything is evicted first, then the one that was silent for the
// longest. If no source has more than a few connections, the crowd is everybody: the choice is
// among the connections of all sources. No connection of everybody is evicted for a file descriptor
// if mostly the application uses the descriptors; the new connection then has to wait.
//
// A connection belongs to one worker's goroutine, and the crowd's connections may belong to
// another worker. This worker then asks the others (askSiblings), which evict the excess in
// their next round of progress. Until then limits may be exceeded a little: by a sixteenth,
// and for descriptors up to the second of fileCeilings.

// crowd caches the result of the last search for the crowd, the source or network with the most
// connections. A search takes time proportional to the number of accounts, so it is not repeated
// for each eviction.
type largestGroup struct {
	ledger.LargestGroup
	left int // number of uses before the next search, if the crowd is everybody
}

// everybodyFor is the number of times that the result everybody is used before the next search.
const everybodyFor = 64

// findLargestGroup returns the crowd, and searches for it anew if the cached result is out of date.
func (s *service) findLargestGroup() *largestGroup {
	w := &s.largestGroup
	if !w.IsCurrent() && w.left <= 0 {
		*w = largestGroup{LargestGroup: ledger.FindLargestGroup(s.bounds.few)}
		if w.AllSources() {
			w.left = everybodyFor
		}
	}
	w.left--
	return w
}

// evict drops a connection of the largest group of peers (ledger.LargestGroup) to make room for the
// connection newcomer, which may be nil. It reports whether this worker had such a connection. r and
// why are as in dismiss. If descriptors have run out and the group is all sources, evict drops a
// connection only if peers hold at least half of the descriptors below fileCeiling.
func (s *service) evict(newcomer *conn, r ledger.Reason, why error) bool {
	c := s.evictable(newcomer)
	if c == nil || r == ledger.Descriptors && s.largestGroup.AllSources() && 2*ledger.Total(ledger.Files) < int64(fileCeiling()) {
		return false
	}
	c.dismiss(r, why)
	return true
}

// evictable returns the connection to evict, or nil if another worker should evict one.
func (s *service) evictable(newcomer *conn) *conn {
	l := &s.guests
	w := s.findLargestGroup()
	if !w.AllSources() && !w.Net.IsValid() {
		g := l.of[w.Source]
		switch {
		case g == nil:
			return nil
		case g.fresh == 0 || !s.sort(g):
			return l.silent(g)
		}
		s.largestGroup = largestGroup{} // the address was used by several users
		w = s.findLargestGroup()
		if g = l.of[w.Source]; g != nil && !w.AllSources() && !w.Net.IsValid() {
			return l.silent(g)
		}
	}
	if w.AllSources() && l.n() <= s.bounds.few && hasSiblings(s) {
		return nil // services with more connections evict first
	}
	return l.silentOf(w.Net, newcomer)
}

// siblings has the services of the process that can be asked to make room: those that have had more
// than a few connections of guests.
var siblings struct {
	sync.Mutex
	services map[*service]struct{}
}

// joinSiblings adds a service to those that others can ask to make room, if it is not one of
// them yet. leaveSiblings removes it.
func (s *service) joinSiblings() error {
	if s.enlisted {
		return nil
	}
	if err := s.openNotifier(); err != nil {
		return err
	}
	siblings.Lock()
	defer siblings.Unlock()
	s.reclaimRequest.callback = s.reclaimAsked
	if siblings.services == nil {
		siblings.services = make(map[*service]struct{})
	}
	siblings.services[s] = struct{}{}
	s.enlisted = true
	return nil
}

func (s *service) leaveSiblings() {
	siblings.Lock()
	delete(siblings.services, s)
	siblings.Unlock()
	s.enlisted = false
}

// hasSiblings reports whether there are other services that s can ask to make room.
func hasSiblings(s *service) bool {
	siblings.Lock()
	defer siblings.Unlock()
	n := len(siblings.services)
	if _, ok := siblings.services[s]; ok {
		n--
	}
	return n > 0
}

// askSiblings asks the other services to make room, and reports whether there are any. They
// evict in their next rounds of progress.
func (s *service) askSiblings() bool {
	siblings.Lock()
	defer siblings.Unlock()
	n := 0
	for f := range siblings.services {
		if f != s {
			f.notifier.notify(&f.reclaimRequest)
			n++
		}
	}
	return n > 0
}

// reclaimAsked evicts connections at the request of another worker while there are too many
// connections or too few descriptors and this worker has a connection to evict.
func (s *service) reclaimAsked() {
	for {
		r, why := ledger.Connections, errSourceLimit
		switch {
		case s.tooMany():
		case s.filesScarce():
			r, why = ledger.Descriptors, errFiles
		default:
			return
		}
		if !s.evict(nil, r, why) {
			return
		}
	}
}

// tooMany reports whether all guests of the process together, or the crowd if it is one
// source, have too many connections.
func (s *service) tooMany() bool {
	if ledger.Total(ledger.Conns) > int64(s.bounds.guests) {
		return true
	}
	w := s.findLargestGroup()
	return !w.AllSources() && !w.Net.IsValid() && w.Conns > int64(s.bounds.guestsOfSource)
}

// filesScarce reports whether the next descriptor would be one that is reserved for the
// application, or whether there is none.
func (s *service) filesScarce() bool {
	fd, err := unix.FcntlInt(uintptr(s.w.EventFD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err == unix.EMFILE
	}
	unix.Close(fd)
	return fd >= fileCeiling()
}

// Reasons for dropping connections of guests (untrusted peers).
var (
	errSourceLimit = errors.New("the peer's address has too many connections")
	errFiles       = errors.New("the remaining descriptors are reserved for the application, raise the limit (ulimit -n)")
	errStalled     = errors.New("the rest of a frame did not arrive in time")
	errBegun       = errors.New("the connections of the peer's address hold too many bytes of unfinished frames")
)

// dismiss drops a connection because its source exceeds a limit. r names the limit; why is the
// cause in the error and in the log.
func (c *conn) dismiss(r ledger.Reason, why error) {
	if g := c.guestEntry.guest; g != nil && g.account.Refuse(r) {
		c.iface.svc.w.Log().Warn("dropping a peer's connection", zap.Stringer("source", g.account.Source()),
			zap.Int("connections", g.count()), zap.Error(why))
	}
	c.refuse(fmt.Errorf("%w: %w", why, ucs.ErrNoResource))
}
