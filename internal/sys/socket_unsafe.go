//go:build linux

package sys

// Soundness: each call passes memory by a conversion inside its argument list, which keeps that
// memory alive and in place until the call returns, and by the length of the slice it came from.
// The typed pointers in the entries of an IOVecs keep the memory of its buffers alive.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Recv reads the bytes that a socket has now into b, which must not be empty. 0 without an errno is
// the end of the stream; unix.EAGAIN means that there are no bytes now.
func Recv(fd int, b []byte) (int, unix.Errno) {
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			unix.MSG_DONTWAIT, 0, 0)
		if e == 0 {
			return int(n), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// Send writes as much of b as the socket accepts now and returns the number of bytes; unix.EAGAIN
// means that it accepts none. A broken connection gives unix.EPIPE or unix.ECONNRESET, never a
// signal. flags are added to MSG_DONTWAIT and MSG_NOSIGNAL; most calls pass 0 or unix.MSG_MORE.
func Send(fd int, b []byte, flags int) (int, unix.Errno) {
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			uintptr(flags|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL), 0, 0)
		if e == 0 {
			return int(n), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// SendTo sends b as a datagram to the socket with an abstract address, which is name without the zero byte
// in front. A name that is too long for an address is cut off.
func SendTo(fd int, b []byte, name string) unix.Errno {
	to := unix.RawSockaddrUnix{Family: unix.AF_UNIX} // Path[0] is the zero byte
	path := unsafe.Slice((*byte)(unsafe.Pointer(&to.Path[1])), len(to.Path)-1)
	length := unsafe.Offsetof(to.Path) + 1 + uintptr(copy(path, name))
	for {
		_, _, e := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd),
			uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, uintptr(unsafe.Pointer(&to)), length)
		if e != unix.EINTR {
			return e
		}
	}
}

// SendVec is Send of the first MaxIOVecs entries of v. It does not remove the sent bytes from v,
// see IOVecs.Advance.
func SendVec(fd int, v *IOVecs, flags int) (int, unix.Errno) {
	var h unix.Msghdr
	v.fill(&h)
	for {
		n, _, e := unix.RawSyscall(unix.SYS_SENDMSG, uintptr(fd),
			uintptr(unsafe.Pointer(&h)), uintptr(flags|unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL))
		if e == 0 {
			return int(n), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// RecvVec is Recv into the first MaxIOVecs entries of v, which must hold at least one byte. It does
// not remove the filled bytes from v, see IOVecs.Advance.
func RecvVec(fd int, v *IOVecs) (int, unix.Errno) {
	var h unix.Msghdr
	v.fill(&h)
	for {
		n, _, e := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd),
			uintptr(unsafe.Pointer(&h)), unix.MSG_DONTWAIT)
		if e == 0 {
			return int(n), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

// AtOnce is the largest number of datagrams that one Discard drops.
const AtOnce = 16

// Discard drops datagrams that a socket has now and returns their number.
func Discard(fd int) int {
	var list [AtOnce]struct { // struct mmsghdr (linux/socket.h), without buffers
		unix.Msghdr
		n uint32
	}
	for {
		n, _, e := unix.RawSyscall6(unix.SYS_RECVMMSG, uintptr(fd),
			uintptr(unsafe.Pointer(&list)), uintptr(len(list)), unix.MSG_DONTWAIT, 0, 0)
		if e == 0 {
			return int(n)
		}
		if e != unix.EINTR {
			return 0
		}
	}
}

// advance drops n bytes from the front of an entry that is longer than n.
func advance(e *unix.Iovec, n int) {
	e.Base = (*byte)(unsafe.Add(unsafe.Pointer(e.Base), n))
	e.SetLen(int(e.Len) - n)
}
