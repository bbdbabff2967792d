//go:build linux && (amd64 || arm64)

package run

// Soundness: the structs have the layout of the kernel's (linux/seccomp.h), whose sizes are part of
// the request numbers; they are on the heap or on the stack of a caller that does not return before
// the call does, and the conversions are in the argument lists.

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// notification is struct seccomp_notif.
type notification struct {
	ID    uint64
	PID   uint32 // number of the thread
	Flags uint32
	NR    int32
	Arch  uint32
	IP    uint64
	Args  [6]uint64
}

// response is struct seccomp_notif_resp.
type response struct {
	ID    uint64
	Value int64
	Error int32 // negative errno
	Flags uint32
}

// addFD is struct seccomp_notif_addfd.
type addFD struct {
	ID                                   uint64
	Flags, Source, Number, NumberedFlags uint32
}

// install puts the calling thread, and all that it starts, under a filter. It returns the listener,
// a descriptor that reports calls. Signals are deferred until a call is answered, unless they kill
// the thread: otherwise a call would be made, and answered, twice.
func install(p []unix.SockFilter) (listener int, errno syscall.Errno) {
	f := unix.SockFprog{Len: uint16(len(p)), Filter: unsafe.SliceData(p)}
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER,
		unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, uintptr(unsafe.Pointer(&f)))
	return int(fd), errno
}

// listen makes an ioctl request to the listener, and repeats it if a signal interrupts it.
func listen[T notification | response | addFD | uint64](listener int, request uintptr, v *T) (int, syscall.Errno) {
	for {
		n, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), request, uintptr(unsafe.Pointer(v)))
		if errno != unix.EINTR {
			return int(n), errno
		}
	}
}

// bytesOf returns the bytes of a struct in the kernel's layout.
func bytesOf[T unix.Stat_t | unix.Statx_t](v *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v))
}
