package tcp

import (
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// Tuning of the progress loop.
const (
	// maxHot is the number of connections that are read without asking epoll. A
	// conversation has one connection, or two when both sides opened one.
	maxHot = 2

	// hotRounds is the number of empty reads in a row after which a connection is
	// left to epoll again. It covers a round trip over a real network.
	hotRounds = 512

	// pollEvery is the number of rounds between polls of the event set while
	// connections are hot, so that the others are served too.
	pollEvery = 4

	// crowdEvents is the number of events during which nothing becomes hot after
	// more connections than maxHot were seen active at once: then one epoll_wait
	// is cheaper than reading each.
	crowdEvents = 256
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

	unexpected int // connections without endpoint

	txPools map[int]*pool // by size
	rxPools map[int]*pool
	pieces  piecePools // for the beginnings of frames
	ops     opPool
	vec     sys.IOVecs // for one call
}

var _ interface {
	uct.Service
	uct.Armer
} = (*service)(nil)

// openService returns the service of a worker.
func openService(w *uct.Worker) (*service, error) {
	s, err := w.Service("tcp", func() (uct.Service, error) {
		s := &service{
			w:       w,
			txPools: make(map[int]*pool),
			rxPools: make(map[int]*pool),
		}
		s.watch.svc = s
		s.pieces.init()
		return s, nil
	})
	if err != nil {
		return nil, err
	}
	return s.(*service), nil
}

// poolOf returns the pool of a buffer size.
func poolOf(pools map[int]*pool, size int) *pool {
	p := pools[size]
	if p == nil {
		p = &pool{size: size}
		pools[size] = p
	}
	return p
}

// Progress writes what was collected since the last round, receives, and writes
// what the handlers sent.
func (s *service) Progress() int {
	n := 0
	if len(s.dirty) != 0 {
		n += s.settle()
	}
	if len(s.hot) == 0 {
		n += s.w.PollEvents()
	} else {
		n += s.readHot()
	}
	if len(s.dirty) != 0 {
		n += s.settle()
	}
	if !s.failures.Empty() {
		n += s.failures.Report()
	}
	return n
}

// readHot reads the hot connections, and polls the event set now and then.
func (s *service) readHot() int {
	n := 0
	kept := s.hot[:0]
	for _, c := range s.hot {
		if c.state == stateClosed || !c.readable() {
			c.hot = false
			continue
		}
		got := c.read()
		n += got
		if got != 0 {
			c.quiet = 0
		} else if c.quiet++; c.quiet >= hotRounds || c.state == stateClosed {
			c.hot = false
			continue
		}
		kept = append(kept, c)
	}
	clear(s.hot[len(kept):])
	s.hot = kept
	if s.rounds++; s.rounds >= pollEvery {
		s.rounds = 0
		n += s.w.PollEvents()
	}
	return n
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

// settle looks after the dirty connections. Those that become dirty meanwhile
// are left for the next call, so that completions which send again cannot keep
// it going for ever.
func (s *service) settle() int {
	list := s.dirty
	s.dirty = s.spare[:0]
	n := 0
	for i, c := range list {
		list[i] = nil
		c.dirty = false
		n += c.settle()
	}
	s.spare = list[:0]
	return n
}

// Arm writes what is collected and says whether the event set will report
// everything that is still to come.
func (s *service) Arm() error {
	busy := false
	for _, c := range s.dirty {
		if c.state == stateClosed {
			continue
		}
		if !c.blocked && c.pay() {
			c.write()
		}
		// What the kernel did not take is announced by EPOLLOUT.
		busy = busy || c.due() ||
			!c.blocked && (c.written != c.accepted || c.owed != 0 || c.ep != nil && !c.ep.pending.Empty())
	}
	if busy || !s.failures.Empty() {
		return ucs.ErrBusy
	}
	return nil
}

// Close ends the service. Its ifaces are closed by then.
func (s *service) Close() error {
	s.watch.stop()
	return nil
}
