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

// news are what goroutines have to tell a worker. A descriptor in the event set wakes
// it.
type news struct {
	mu   sync.Mutex
	list []*bulletin // guarded by mu
	fd   int         // guarded by mu; an eventfd, 0: none
}

// bulletin is one of them, told any number of times.
type bulletin struct {
	heard func() // called by the worker
	known bool   // listed; guarded by the lock of the list
}

// openNews makes the service ready for handshakes.
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

// tell makes the worker hear b. Any goroutine may call it.
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

// HandleEvent hears what was told.
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

// close releases the descriptor. Nobody tells any more.
func (n *news) close(set *event.Set) {
	if n.fd > 0 {
		set.Remove(n.fd)
		unix.Close(n.fd)
		n.fd = 0
	}
}
