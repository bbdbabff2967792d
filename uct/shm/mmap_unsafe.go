//go:build linux

package shm

// Soundness: the kernel gives a mapping of exactly the length asked for, and the
// slice made of it ends with it. The address wanted is a number given to the
// kernel, which never replaces a mapping that is there (MAP_FIXED_NOREPLACE), so
// no memory of Go can be hit. munmap takes the slice mmap returned, once.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmap maps length bytes of a file, shared and writable. With fixed the mapping
// is at addr, or it fails with unix.EEXIST; otherwise addr is a hint, 0 for none.
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
