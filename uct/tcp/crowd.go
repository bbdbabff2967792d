//go:build linux

package tcp

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
)

// Choice of the connection that is evicted for a new one. The crowd is the source, or the
// network with many addresses, that has the most connections of the process. Of the crowd's
// connections, one that has never carried anything is evicted first, then the one that was
// silent for the longest. If no source has more than a few connections, the choice is among
// the connections of all. Then none is evicted for a descriptor if the application has taken
// the descriptors: the new connection has to wait.
//
// A connection belongs to one worker's goroutine, and the crowd's connections may belong to
// another worker. This worker then asks the others (askSiblings), which evict the excess in
// their next round of progress. Until then limits may be exceeded a little: by a sixteenth,
// and for descriptors up to the second of fileCeilings.

// crowd caches the result of the last search for the crowd. A search takes time proportional
// to the number of accounts, so it is not repeated for each eviction.
type crowd struct {
	ledger.Crowd
	left int // uses before the next search, if the crowd is everybody
}

// everybodyFor is the initial value of crowd.left.
const everybodyFor = 64

// findCrowd returns the crowd, and searches for it anew if the cached result is out of date.
func (s *service) findCrowd() *crowd {
	w := &s.crowd
	if !w.Stands() && w.left <= 0 {
		*w = crowd{Crowd: ledger.Crowded(s.bounds.few)}
		if w.Everybody() {
			w.left = everybodyFor
		}
	}
	w.left--
	return w
}

// evict drops a connection of the crowd to make room for newcomer, which may be nil. It
// reports whether this worker had such a connection. If the crowd is everybody, it drops none
// for a descriptor while peers hold less than half of the descriptors below fileCeiling.
func (s *service) evict(newcomer *conn, r ledger.Reason, why error) bool {
	c := s.evictable(newcomer)
	if c == nil || r == ledger.Descriptors && s.crowd.Everybody() && 2*ledger.Total(ledger.Files) < int64(fileCeiling()) {
		return false
	}
	c.dismiss(r, why)
	return true
}

// evictable returns the connection to evict, or nil if another worker should evict one.
func (s *service) evictable(newcomer *conn) *conn {
	l := &s.guests
	w := s.findCrowd()
	if !w.Everybody() && !w.Net.IsValid() {
		g := l.of[w.Source]
		switch {
		case g == nil:
			return nil
		case g.fresh == 0 || !s.sort(g):
			return l.silent(g)
		}
		s.crowd = crowd{} // the address was used by several users
		w = s.findCrowd()
		if g = l.of[w.Source]; g != nil && !w.Everybody() && !w.Net.IsValid() {
			return l.silent(g)
		}
	}
	if w.Everybody() && l.n() <= s.bounds.few && callable(s) {
		return nil // services with more connections evict first
	}
	return l.silentOf(w.Net, newcomer)
}

// fellows holds the services of the process that can be asked to make room: those that have
// had more than a few connections of guests.
var fellows struct {
	sync.Mutex
	services map[*service]struct{}
}

// joinSiblings adds a service to those that others can ask to make room, if it is not one of
// them yet. leaveSiblings removes it.
func (s *service) joinSiblings() error {
	if s.enlisted {
		return nil
	}
	if err := s.openNews(); err != nil {
		return err
	}
	fellows.Lock()
	defer fellows.Unlock()
	s.call.heard = s.reclaimAsked
	if fellows.services == nil {
		fellows.services = make(map[*service]struct{})
	}
	fellows.services[s] = struct{}{}
	s.enlisted = true
	return nil
}

func (s *service) leaveSiblings() {
	fellows.Lock()
	delete(fellows.services, s)
	fellows.Unlock()
	s.enlisted = false
}

// callable reports whether there are other services that s can ask to make room.
func callable(s *service) bool {
	fellows.Lock()
	defer fellows.Unlock()
	n := len(fellows.services)
	if _, ok := fellows.services[s]; ok {
		n--
	}
	return n > 0
}

// askSiblings asks the other services to make room, and reports whether there are any. They
// evict in their next rounds of progress.
func (s *service) askSiblings() bool {
	fellows.Lock()
	defer fellows.Unlock()
	n := 0
	for f := range fellows.services {
		if f != s {
			f.news.tell(&f.call)
			n++
		}
	}
	return n > 0
}

// reclaimAsked evicts connections at the request of another worker while there are too many
// connections or too few descriptors and this worker has a connection to evict.
func (s *service) reclaimAsked() {
	for {
		r, why := ledger.Connections, errCrowded
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
	w := s.findCrowd()
	return !w.Everybody() && !w.Net.IsValid() && w.Conns > int64(s.bounds.guestsOfSource)
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
