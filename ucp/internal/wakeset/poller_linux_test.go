//go:build !simulate

package wakeset

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPollerOutlives: a poller is left readable when its worker is closed, and the application
// never returns to it. Garbage collection closes its descriptors.
func TestPollerOutlives(t *testing.T) {
	events, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(events)
	b, err := newPoller(events)
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

// readable reports whether a descriptor is readable.
func readable(t *testing.T, fd int) bool {
	t.Helper()
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(p, 0)
	if err != nil {
		t.Fatal(err)
	}
	return n == 1
}

// TestPolled checks that the application's descriptor is readable from Ring to Return, even if
// others consume the events, and after Close if the application may be asleep.
func TestPolled(t *testing.T) {
	s, events := open(t, true, true)
	fd := s.FD()
	if fd == events.FD() || readable(t, fd) {
		t.Error("the descriptor is the event set's, or readable")
	}
	s.Ring()
	if !readable(t, fd) {
		t.Error("it does not tell of Ring")
	}
	s.Return()
	if readable(t, fd) {
		t.Error("it is readable after Return")
	}
	s.Ring()
	s.Close(true)
	if !readable(t, fd) {
		t.Error("the application is not woken at the end")
	}
	s.Return()
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
		t.Errorf("after the application has come back: %v", err)
	}
	s.Return()
}

// TestUnpolled checks that no descriptor is left if the application does not poll, or after an
// orderly Close.
func TestUnpolled(t *testing.T) {
	s, events := open(t, true, false)
	if s.FD() != events.FD() {
		t.Error("there is a descriptor that nobody polls")
	}
	s.Ring()
	s.Close(true)
	s, _ = open(t, true, true)
	fd := s.FD()
	s.Ring()
	s.Close(false)
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err != unix.EBADF {
		t.Error(err)
	}
}
