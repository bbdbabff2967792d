//go:build linux

package tcp

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sockdiag"
	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// service is the state that the tcp ifaces of one worker share. It belongs to the worker's
// goroutine.
type service struct {
	w *uct.Worker

	hot             []*conn // connections that are read in each round, without asking epoll
	rounds          int     // rounds since the event set was last polled
	untilGroupCheck int     // number of events until a connection may become hot again

	dirty    []*conn // connections with output, completions or pending requests to process
	spare    []*conn // second array for dirty: settle swaps the two
	failures kit.Failures

	watch          liveness // checks for lost peers
	own            ownAddrs
	diag           sockdiag.Asker
	asks           retries // delay of kernel queries after a failure
	listenerAnswer listenerAnswer
	notifier       notifier // notifications of handshakes and of other workers

	bounds         bounds
	guests         guestList // sources of connections that the application did not ask for
	half           halfOpenList
	slow           slowList
	largestGroup   largestGroup
	reclaimRequest notification // another worker's request to evict connections of the crowd
	enlisted       bool         // other workers can ask this one to evict connections
	forOwn         func() bool  // makes room for an endpoint of the application (yield, called through this field)
	ceiling        int          // the first descriptor that is not for guests, as of the last accept event

	txPools map[int]*pool // by size of the buffers, in bytes
	rxPools map[int]*pool
	pieces  piecePools // buffers for the received parts of incomplete frames
	ops     opPool
	vec     sys.IOVecs // reused by each vectored system call
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

// warm is called when epoll has reported c as readable. It makes c hot, unless too many connections
// are active.
func (s *service) warm(c *conn) {
	switch {
	case c.hot || s.untilGroupCheck > 0:
		s.untilGroupCheck = max(s.untilGroupCheck-1, 0)
	case len(s.hot) < maxHot:
		c.hot, c.quiet = true, 0
		s.hot = append(s.hot, c)
	default:
		for _, o := range s.hot {
			o.hot = false
		}
		clear(s.hot)
		s.hot = s.hot[:0]
		s.untilGroupCheck = groupCheckEvents
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

// notifier is a queue of notifications from other goroutines to a worker. A descriptor in the event set
// wakes the worker.
type notifier struct {
	mu   sync.Mutex
	list []*notification // guarded by mu
	fd   int             // guarded by mu; an eventfd, 0: none
}

// notification is one kind of notification to a worker. It is queued at most once at a time.
type notification struct {
	callback func() // handles the notification; called on the worker's goroutine
	queued   bool   // the notification is queued; guarded by notifier.mu
}

// openNotifier makes the service ready to receive notifications.
func (s *service) openNotifier() error {
	if s.notifier.fd > 0 {
		return nil
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		if err = s.w.Events().Add(fd, event.Read, &s.notifier); err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return fmt.Errorf("tls: eventfd: %w", statuserr.New(sys.WithLimit(err), ucs.ErrIO))
	}
	s.notifier.fd = fd
	return nil
}

// notify queues the notification b for the worker and wakes the worker. Any goroutine may call notify.
func (n *notifier) notify(b *notification) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if b.queued {
		return
	}
	b.queued = true
	n.list = append(n.list, b)
	if len(n.list) == 1 {
		sys.Count(n.fd)
	}
}

// HandleEvent handles the queued notifications.
func (n *notifier) HandleEvent(event.Events) {
	n.mu.Lock()
	sys.Reset(n.fd)
	list := n.list
	n.list = nil
	for _, b := range list {
		b.queued = false
	}
	n.mu.Unlock()
	for _, b := range list {
		b.callback()
	}
}

// close releases the descriptor. notify must not be called any more.
func (n *notifier) close(set *event.Set) {
	if n.fd > 0 {
		set.Remove(n.fd)
		unix.Close(n.fd)
		n.fd = 0
	}
}
