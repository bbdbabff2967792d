package ucp

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
)

// bell is the descriptor that the application polls in ThreadModeMulti: an epoll set of the
// worker's event set and an eventfd, which signals that something has happened. The eventfd is
// needed because other goroutines progress the worker meanwhile, and may take events from the event
// set before the poller has seen them. A bell that has rung stays readable until the application
// arms again. Progress does not clear it, because another goroutine may call Progress before the
// poller has been woken.
type bell struct {
	set     int // epoll set of the worker's event set and fd
	fd      int
	rung    bool
	cleanup runtime.Cleanup // set by outlive
}

func newBell(events int) (*bell, error) {
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("ucp: epoll_create1: %w", sys.WithLimit(err))
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		unix.Close(set)
		return nil, fmt.Errorf("ucp: eventfd: %w", sys.WithLimit(err))
	}
	b := &bell{set: set, fd: fd}
	for _, fd := range []int{events, fd} {
		if err := unix.EpollCtl(set, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(fd)}); err != nil {
			b.close()
			return nil, fmt.Errorf("ucp: epoll_ctl: %w", err)
		}
	}
	return b, nil
}

func (b *bell) ring() {
	b.rung = true
	one := [8]byte{1}
	unix.Write(b.fd, one[:]) // ignore the error: an eventfd with a full counter is readable
}

func (b *bell) answer() {
	b.rung = false
	var count [8]byte
	unix.Read(b.fd, count[:])
}

// outlive keeps the bell ringing after its worker is closed, for a poller that may not have been
// woken yet. The bell is closed when the application returns to the worker (comeBack), or when the
// garbage collector finds that nothing refers to the bell.
func (b *bell) outlive() {
	b.cleanup = runtime.AddCleanup(b, func(d [2]int) {
		unix.Close(d[0])
		unix.Close(d[1])
	}, [2]int{b.set, b.fd})
}

func (b *bell) close() {
	b.cleanup.Stop()
	unix.Close(b.set)
	unix.Close(b.fd)
}

// add adds a worker's descriptor to the application's epoll set.
func (t *EpollTarget) add(fd int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(uint32(t.Data)), Pad: int32(uint32(t.Data >> 32))}
	if t.Edge {
		ev.Events |= unix.EPOLLET
	}
	if err := unix.EpollCtl(t.FD, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		return fmt.Errorf("ucp: adding to the external event descriptor: %w", err)
	}
	return nil
}
