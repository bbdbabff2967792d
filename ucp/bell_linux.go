package ucp

import (
	"fmt"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
)

// bell is what the application's poller sleeps on in thread mode multi: the worker's
// event set, and a descriptor that says that something has happened. Other goroutines
// progress the worker meanwhile, and take events from the set before the poller has
// seen them. Ringing stays until the application arms again: Progress may be somebody
// else's, while the poller has not been woken yet.
type bell struct {
	set     int // an epoll set of both
	fd      int
	rung    bool
	cleanup runtime.Cleanup // when it outlives the worker
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
	unix.Write(b.fd, one[:]) // if it is full it is readable
}

func (b *bell) answer() {
	b.rung = false
	var count [8]byte
	unix.Read(b.fd, count[:])
}

// outlive leaves it ringing when the worker is closed, for a poller that may not have heard
// it yet: until he comes back, or the collector finds that nobody can.
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

// add puts a worker's descriptor into the application's set.
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
