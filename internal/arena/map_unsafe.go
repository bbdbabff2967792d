//go:build linux

package arena

// Soundness: the pointers point to mappings that the kernel made for this package and that Go's
// runtime does not manage; the requested address is passed to the kernel as a number and never
// dereferenced. A fixed address is used only with MAP_FIXED_NOREPLACE, so it replaces no existing
// mapping.

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// mapAt maps anonymous memory; addr 0 leaves the address to the kernel.
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

// address returns the address of b.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
