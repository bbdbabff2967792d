//go:build linux

package tcp

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/ledger"
)

// Whose connections give way to a newcomer's: those of the crowd, which is a source,
// or many addresses of one network, with the most connections of the process; of its
// connections one that has never carried anything, else the one that was silent for
// the longest. Where nobody has more than a few it is one of all; not if it is the
// application that has taken the descriptors: then the newcomer has to wait.
//
// A connection belongs to one worker's goroutine, and the crowd may be another
// worker's. That is asked then (askSiblings), and drops what there is too much of in its
// next round of progress. Meanwhile limits are exceeded a little: by a sixteenth, and
// up to the second of fileCeilings.

// crowd is who had most when it was looked for, which takes as long as there are
// accounts. So it is not looked for each time.
type crowd struct {
	ledger.Crowd
	left int // evictions before it is looked for again, if it is everybody
}

// everybodyFor is that number at first.
const everybodyFor = 64

// findCrowd returns the crowd.
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

// evict drops a connection of the crowd for a newcomer, which may be nil, and reports
// whether there was one here.
func (s *service) evict(newcomer *conn, r ledger.Reason, why error) bool {
	c := s.evictable(newcomer)
	if c == nil || r == ledger.Descriptors && s.crowd.Everybody() && 2*ledger.Total(ledger.Files) < int64(fileCeiling()) {
		return false
	}
	c.dismiss(r, why)
	return true
}

// evictable returns who has to go, nil if the crowd is elsewhere.
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
		s.crowd = crowd{} // these were of several users
		w = s.findCrowd()
		if g = l.of[w.Source]; g != nil && !w.Everybody() && !w.Net.IsValid() {
			return l.silent(g)
		}
	}
	if w.Everybody() && l.n() <= s.bounds.few && callable(s) {
		return nil // rather of those who have more
	}
	return l.silentOf(w.Net, newcomer)
}

// fellows are the services of the process that can be asked to make room: those with
// more than a few guests.
var fellows struct {
	sync.Mutex
	services map[*service]struct{}
}

// joinSiblings makes a service one that others can ask, if it is none yet; resign ends that.
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

// callable reports whether there are services that s can ask.
func callable(s *service) bool {
	fellows.Lock()
	defer fellows.Unlock()
	n := len(fellows.services)
	if _, ok := fellows.services[s]; ok {
		n--
	}
	return n > 0
}

// askSiblings asks the other services to make room, and reports whether there are any.
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

// reclaimAsked makes room that another worker has asked for, as far as the crowd is here.
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

// tooMany reports whether the guests of the process, or of the crowd, have too many
// connections.
func (s *service) tooMany() bool {
	if ledger.Total(ledger.Conns) > int64(s.bounds.guests) {
		return true
	}
	w := s.findCrowd()
	return !w.Everybody() && !w.Net.IsValid() && w.Conns > int64(s.bounds.guestsOfSource)
}

// filesScarce reports whether the next descriptor would be one of the application's.
func (s *service) filesScarce() bool {
	fd, err := unix.FcntlInt(uintptr(s.w.EventFD()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err == unix.EMFILE
	}
	unix.Close(fd)
	return fd >= fileCeiling()
}
