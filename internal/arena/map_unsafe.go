//go:build linux

package arena

// Soundness: the pointers are to mappings that the kernel made for this package
// and that Go's runtime does not manage; the wanted address is given to the
// kernel as a number and never dereferenced. A fixed address is used only with
// MAP_FIXED_NOREPLACE, so no memory of anybody else is replaced.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapAt maps anonymous memory.
func mapAt(addr uintptr, length, flags int) ([]byte, error) {
	p, err := unix.MmapPtr(-1, 0, unsafe.Add(nil, addr), uintptr(length), unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), length), nil
}

func unmap(b []byte) error {
	return unix.MunmapPtr(unsafe.Pointer(unsafe.SliceData(b)), uintptr(len(b)))
}

// address is where b is.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
