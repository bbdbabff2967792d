//go:build linux

package tcp

import (
	"github.com/ucx-go/ucx/internal/sockdiag"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// service is what the tcp ifaces of one worker share. It belongs to the worker's
// goroutine.
type service struct {
	w *uct.Worker

	hot     []*conn // read directly each round
	rounds  int     // since the event set was polled
	crowded int     // events left without hot connections

	dirty    []*conn // with output, completions or pending requests to look after
	spare    []*conn // the other array of dirty
	failures kit.Failures

	watch liveness
	own   ownAddrs
	diag  sockdiag.Asker
	asks  retries
	heard heard
	news  news // of handshakes, and of workers that want something

	bounds   bounds
	guests   guestList // who has connections that the application did not ask for
	half     halfOpenList
	slow     slowList
	crowd    crowd
	call     bulletin    // another worker wants the crowd to give way
	enlisted bool        // others can ask it to
	forOwn   func() bool // makes room for an endpoint of the application (yield); connections do not know how
	ceiling  int         // the first descriptor that is not for guests, as of the last event

	txPools map[int]*pool // by size
	rxPools map[int]*pool
	pieces  piecePools // for the beginnings of frames
	ops     opPool
	vec     sys.IOVecs // for one call
}

// openService returns the service of a worker.
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

// warm notes that epoll had something for c.
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

// markDirty makes sure that c is looked after at the end of the round, or at the
// start of the next.
func (s *service) markDirty(c *conn) {
	if !c.dirty {
		c.dirty = true
		s.dirty = append(s.dirty, c)
	}
}
