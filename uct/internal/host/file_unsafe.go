//go:build linux

package host

// Soundness: path is a byte slice that ends in a zero byte, and b is a slice of the caller.
// Each is converted to uintptr inside the argument list of the system call that uses it, which
// keeps the slice alive and in place until the call returns. The kernel writes at most len(b)
// bytes.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// readFile reads the beginning of the file at path, which must end with a zero byte, into b,
// and returns the number of bytes read. It allocates nothing.
func readFile(path, b []byte) (int, unix.Errno) {
	cwd := unix.AT_FDCWD
	var fd uintptr
	var e unix.Errno
	for {
		fd, _, e = unix.Syscall6(unix.SYS_OPENAT, uintptr(cwd),
			uintptr(unsafe.Pointer(unsafe.SliceData(path))), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		if e == 0 {
			break
		}
		if e != unix.EINTR {
			return 0, e
		}
	}
	n := 0
	for n < len(b) {
		k, _, err := unix.Syscall(unix.SYS_READ, fd,
			uintptr(unsafe.Pointer(unsafe.SliceData(b[n:]))), uintptr(len(b)-n))
		if err == unix.EINTR {
			continue
		}
		if e = err; e != 0 || k == 0 {
			break
		}
		n += int(k)
	}
	unix.Syscall(unix.SYS_CLOSE, fd, 0, 0)
	return n, e
}
