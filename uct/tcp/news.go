//go:build linux

package tcp

import (
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/statuserr"
	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
)

// news is a queue of notifications from other goroutines to a worker. A descriptor in the event set
// wakes the worker.
type news struct {
	mu   sync.Mutex
	list []*bulletin // guarded by mu
	fd   int         // guarded by mu; an eventfd, 0: none
}

// bulletin is one kind of notification. It is queued at most once at a time.
type bulletin struct {
	heard func() // called on the worker's goroutine
	known bool   // queued; guarded by news.mu
}

// openNews makes the service ready to receive notifications.
func (s *service) openNews() error {
	if s.news.fd > 0 {
		return nil
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err == nil {
		if err = s.w.Events().Add(fd, event.Read, &s.news); err != nil {
			unix.Close(fd)
		}
	}
	if err != nil {
		return fmt.Errorf("tls: eventfd: %w", statuserr.New(sys.WithLimit(err), ucs.ErrIO))
	}
	s.news.fd = fd
	return nil
}

// tell queues b for the worker and wakes it. Any goroutine may call tell.
func (n *news) tell(b *bulletin) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if b.known {
		return
	}
	b.known = true
	n.list = append(n.list, b)
	if len(n.list) == 1 {
		one := [8]byte{1}
		unix.Write(n.fd, one[:])
	}
}

// HandleEvent handles the queued notifications.
func (n *news) HandleEvent(event.Events) {
	var count [8]byte
	n.mu.Lock()
	unix.Read(n.fd, count[:])
	list := n.list
	n.list = nil
	for _, b := range list {
		b.known = false
	}
	n.mu.Unlock()
	for _, b := range list {
		b.heard()
	}
}

// close releases the descriptor. There must be no call of tell any more.
func (n *news) close(set *event.Set) {
	if n.fd > 0 {
		set.Remove(n.fd)
		unix.Close(n.fd)
		n.fd = 0
	}
}
