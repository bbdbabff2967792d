//go:build !simulate

package wakeset

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
)

// poller is the descriptor that an application polls in thread mode multi: an epoll set of the
// worker's event set and an eventfd, which signals that something has happened. The eventfd is
// needed because other goroutines progress the worker in between, and may take events from the
// event set before the application has seen them. After ring the poller stays readable until the
// application returns (answer). Progress does not clear it, because another goroutine may progress
// the worker before the application has been woken.
type poller struct {
	set     int             // epoll set of the worker's event set and fd
	fd      int             // the eventfd
	rung    bool            // the eventfd is readable
	cleanup runtime.Cleanup // set by outlive
}

func newPoller(events int) (*poller, error) {
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("ucp: epoll_create1: %w", sys.WithLimit(err))
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(set)
		return nil, fmt.Errorf("ucp: eventfd: %w", sys.WithLimit(err))
	}
	p := &poller{set: set, fd: fd}
	for _, fd := range []int{events, fd} {
		if err := unix.EpollCtl(set, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			p.close()
			return nil, fmt.Errorf("ucp: epoll_ctl: %w", err)
		}
	}
	return p, nil
}

func (p *poller) ring() {
	p.rung = true
	sys.Count(p.fd) // the error does not matter: an eventfd with a full counter is readable
}

func (p *poller) answer() {
	p.rung = false
	sys.Reset(p.fd)
}

// outlive keeps the poller readable after its worker is closed, for an application that may not
// have been woken yet. It is closed when the application returns to the worker (Set.Return), or
// when the garbage collector finds that nothing refers to it.
func (p *poller) outlive() {
	p.cleanup = runtime.AddCleanup(p, func(d [2]int) {
		unix.Close(d[0])
		unix.Close(d[1])
	}, [2]int{p.set, p.fd})
}

func (p *poller) close() {
	p.cleanup.Stop()
	unix.Close(p.set)
	unix.Close(p.fd)
}

// AddTo adds the descriptor fd to an application's epoll set. The parameter data is the user data
// of the events. With edge the events are edge-triggered.
func AddTo(set, fd int, data uint64, edge bool) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(uint32(data)), Pad: int32(uint32(data >> 32))}
	if edge {
		ev.Events |= unix.EPOLLET
	}
	if err := unix.EpollCtl(set, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("ucp: adding the worker to the application's epoll set: %w", err)
	}
	return nil
}
