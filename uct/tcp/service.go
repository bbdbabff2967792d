//go:build linux

package tcp

import (
	"github.com/ucx-go/ucx/internal/sockdiag"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// service is the state that the tcp ifaces of one worker share. It belongs to the worker's
// goroutine.
type service struct {
	w *uct.Worker

	hot     []*conn // connections that are read in each round, without asking epoll
	rounds  int     // rounds since the event set was last polled
	crowded int     // number of events until a connection may become hot again

	dirty    []*conn // connections with output, completions or pending requests to process
	spare    []*conn // a second array, swapped with that of dirty
	failures kit.Failures

	watch liveness
	own   ownAddrs
	diag  sockdiag.Asker
	asks  retries
	heard heard
	news  news // notifications of handshakes and of other workers

	bounds   bounds
	guests   guestList // sources of connections that the application did not ask for
	half     halfOpenList
	slow     slowList
	crowd    crowd
	call     bulletin    // another worker asks this one to evict connections of the crowd
	enlisted bool        // other workers can ask this one
	forOwn   func() bool // makes room for an endpoint of the application (yield, called through this field)
	ceiling  int         // the first descriptor that is not for guests, as of the last accept event

	txPools map[int]*pool // by size
	rxPools map[int]*pool
	pieces  piecePools // buffers for the beginnings of frames
	ops     opPool
	vec     sys.IOVecs // used within one system call
}

// openService returns the service of a worker, and makes it if there is none.
func openService(w *uct.Worker) (*service, error) {
	s, err := w.Service("tcp", func() (uct.Service, error) {
		s := &service{
			w:       w,
			txPools: make(map[int]*pool),
			rxPools: make(map[int]*pool),
			ceiling: fileCeiling(),
			bounds:  limits.fitting(),
		}
		s.asks.w, s.own.read = w, readOwnAddrs
		s.guests.init()
		s.watch.svc = s
		s.pieces.init()
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	return s.(*service), nil
}

// warm notes that epoll reported c as readable. c may become hot.
func (s *service) warm(c *conn) {
	switch {
	case c.hot || s.crowded > 0:
		s.crowded = max(s.crowded-1, 0)
	case len(s.hot) < maxHot:
		c.hot, c.quiet = true, 0
		s.hot = append(s.hot, c)
	default:
		for _, o := range s.hot {
			o.hot = false
		}
		clear(s.hot)
		s.hot = s.hot[:0]
		s.crowded = crowdEvents
	}
}

// markDirty queues c to be processed (settle) at the end of the round, or at the start of the next
// one.
func (s *service) markDirty(c *conn) {
	if !c.dirty {
		c.dirty = true
		s.dirty = append(s.dirty, c)
	}
}
