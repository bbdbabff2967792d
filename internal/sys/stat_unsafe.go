//go:build linux

package sys

// Soundness: the kernel reads path up to its zero byte, which is checked to be
// there, and writes one Stat_t; the conversions inside the call's argument list
// keep both alive and in place.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Stat is stat(2) of a path that ends with a zero byte. Unlike unix.Stat it does not allocate.
func Stat(path []byte, st *unix.Stat_t) error {
	if len(path) == 0 || path[len(path)-1] != 0 {
		return unix.EINVAL
	}
	dir := unix.AT_FDCWD // a variable, because AT_FDCWD is negative and no constant of type uintptr
	_, _, e := unix.Syscall6(fstatat, uintptr(dir), uintptr(unsafe.Pointer(&path[0])),
		uintptr(unsafe.Pointer(st)), 0, 0, 0)
	if e != 0 {
		return e
	}
	return nil
}
