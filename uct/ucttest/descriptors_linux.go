package ucttest

import (
	"testing"

	"golang.org/x/sys/unix"
)

// wait waits until a worker's descriptor is readable, at most 1 ms.
func wait(hosts []*Host) {
	var fds []unix.PollFd
	for _, h := range hosts {
		if h.Worker != nil {
			fds = append(fds, unix.PollFd{Fd: int32(h.Worker.EventFD()), Events: unix.POLLIN})
		}
	}
	if n, _ := unix.Poll(fds, 1); n == 0 {
		return
	}
	// An idle worker polls its event set only in some rounds. Arm makes the next round poll.
	for _, h := range hosts {
		if h.Worker != nil {
			h.Worker.Arm()
		}
	}
}

// readable waits at most ms milliseconds and reports whether the worker's descriptor is
// readable.
func readable(t *testing.T, h *Host, ms int) bool {
	t.Helper()
	for {
		fds := []unix.PollFd{{Fd: int32(h.Worker.EventFD()), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, ms)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			t.Fatalf("polling the worker's descriptor: %v", err)
		}
		return n > 0
	}
}

// Files returns how many descriptors the process may have open at once, for tests
// that open as many as they can.
func Files() int {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil || r.Cur > 1<<30 {
		return 1 << 30
	}
	return int(r.Cur)
}
