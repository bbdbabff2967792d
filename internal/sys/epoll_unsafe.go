//go:build linux

package sys

// Soundness: the kernel writes at most len(events) entries into memory that the
// conversion inside the call's argument list keeps alive and in place.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// EpollPoll is epoll_wait with a zero timeout. It returns the number of events stored, 0 if none is
// ready or the descriptor is closed.
func EpollPoll(epfd int, events []unix.EpollEvent) int {
	if len(events) == 0 {
		return 0
	}
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(epfd),
			uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
		if e == 0 {
			return int(n)
		}
		if e != unix.EINTR {
			return 0
		}
	}
}
