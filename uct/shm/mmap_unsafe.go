//go:build linux

package shm

// Soundness: the kernel returns a mapping of exactly the length asked for, and the slice made
// of the mapping ends with the mapping. The address asked for is a number passed to the kernel,
// which never replaces an existing mapping (MAP_FIXED_NOREPLACE), so no Go memory can be
// overwritten. munmap is called once, with the slice that mmap returned.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmap maps length bytes of a file, shared and writable. If fixed is set, the mapping is at addr,
// or mmap fails, with unix.EEXIST if something is mapped there. Otherwise addr is a hint, 0 for
// none.
func mmap(fd, length int, addr uint64, fixed bool) ([]byte, error) {
	flags := unix.MAP_SHARED
	if fixed {
		flags |= unix.MAP_FIXED_NOREPLACE
	}
	p, err := unix.MmapPtr(fd, 0, unsafe.Add(nil, uintptr(addr)), uintptr(length), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, err
	}
	b := unsafe.Slice((*byte)(p), length)
	if fixed && addressOf(b) != addr { // a kernel that does not know the flag
		munmap(b)
		return nil, unix.EEXIST
	}
	return b, nil
}

func munmap(b []byte) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)))
}
