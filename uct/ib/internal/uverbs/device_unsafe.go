//go:build linux

package uverbs

// Soundness: the conversions are inside the argument lists of the system calls, so
// the frame and the buffer stay alive and in place until the call returns. The
// pointers inside a frame are to the frame itself, which Call.Do pins.

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/internal/abi"
)

// device implements File by the kernel's device.
type device struct {
	fd   int
	name string
}

// Open opens the device at path, which must be a character device. If rdev is not 0, it must be the
// number of the device, so that a stale node of another device is refused. If VERBS_DEBUG=1 is set,
// the calls are printed.
func Open(path, name string, rdev uint64) (File, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, openError(name, path, err.(syscall.Errno))
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return nil, &Error{Device: name, Call: "stat " + path, Errno: err.(syscall.Errno)}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || rdev != 0 && uint64(st.Rdev) != rdev {
		unix.Close(fd)
		return nil, fmt.Errorf("uverbs: %s is not device %d:%d: %w", path, unix.Major(rdev), unix.Minor(rdev), ucs.ErrNoDevice)
	}
	return Traced(&device{fd: fd, name: name}), nil
}

func (d *device) Name() string { return d.name }

func (d *device) Ioctl(f *Frame) syscall.Errno {
	for {
		_, _, e := unix.Syscall(unix.SYS_IOCTL, uintptr(d.fd), abi.RDMA_VERBS_IOCTL, uintptr(unsafe.Pointer(unsafe.SliceData(f.words))))
		if e != unix.EINTR {
			return e
		}
	}
}

// Write does not inform Go's scheduler, because a doorbell does not block. It calls the function
// that unix.RawSyscall reaches after two more calls.
func (d *device) Write(b []byte) (int, syscall.Errno) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_WRITE, uintptr(d.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), 0, 0, 0)
		if e == 0 {
			return int(n), 0
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
}

func (d *device) Mmap(offset uint64, length int) ([]byte, syscall.Errno) {
	b, err := unix.Mmap(d.fd, int64(offset), length, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err.(syscall.Errno)
	}
	return b, 0
}

func (d *device) Munmap(b []byte) syscall.Errno {
	if err := unix.Munmap(b); err != nil {
		return err.(syscall.Errno)
	}
	return 0
}

func (d *device) Close() error {
	fd := d.fd
	d.fd = -1 // the number may be reused
	if err := unix.Close(fd); err != nil {
		return &Error{Device: d.name, Call: "close", Errno: err.(syscall.Errno)}
	}
	return nil
}
