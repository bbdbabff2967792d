//go:build linux

package sys

// Soundness: the conversions inside the calls' argument lists keep the memory alive and in place. The kernel
// writes at most len(events) entries to events, and no more than a variable's size to a variable.

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

// Readable reports whether a descriptor is readable now, or in a state that a read would report.
func Readable(fd int) bool {
	p := unix.PollFd{Fd: int32(fd), Events: unix.POLLIN}
	var now unix.Timespec
	n, _, e := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return n != 0 && e == 0 || e != 0 && e != unix.EINTR
}

// Count adds one to the counter of an eventfd that does not block. A counter at its maximum gives unix.EAGAIN.
func Count(fd int) unix.Errno {
	one := uint64(1)
	_, _, e := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&one)), unsafe.Sizeof(one))
	return e
}

// Reset sets the counter of an eventfd or a timerfd that does not block to zero. It fails if it is zero.
func Reset(fd int) unix.Errno {
	var count uint64
	_, _, e := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&count)), unsafe.Sizeof(count))
	return e
}
