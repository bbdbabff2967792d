package ucp

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestBellOutlives: a bell that rings when its worker is closed, and to which nobody comes
// back, is the collector's.
func TestBellOutlives(t *testing.T) {
	events, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(events)
	b, err := newBell(events)
	if err != nil {
		t.Fatal(err)
	}
	b.ring()
	b.outlive()
	set, fd := b.set, b.fd
	runtime.KeepAlive(b)
	for _, d := range []int{set, fd} {
		for {
			if _, err := unix.FcntlInt(uintptr(d), unix.F_GETFD, 0); err == unix.EBADF {
				break
			}
			runtime.GC()
		}
	}
}
