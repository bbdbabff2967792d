//go:build linux

package mlx5

// Soundness: records and registers are words at aligned offsets of mappings; slicing checks the
// offsets. The mappings stay until the device is closed, which happens after every object that uses
// them is closed.
// Addresses of memory are given to the kernel as numbers: the mappings do not move, and a kernel
// object that knows an address is destroyed before the mapping is.

import "unsafe"

// recordAt returns the doorbell record at an offset of a page.
func recordAt(page []byte, off int) record {
	return (*[2]uint32)(unsafe.Pointer(unsafe.SliceData(page[off:][:8])))
}

// bellAt returns the 64-bit register at an offset of a doorbell page.
func bellAt(page []byte, off int) *uint64 {
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(page[off&^7:][:8])))
}

// flameAt returns the 64-byte blocks in the n bytes at an offset of a doorbell page.
func flameAt(page []byte, off, n int) [][8]uint64 {
	b := page[off&^7:][:n]
	return unsafe.Slice((*[8]uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/blockSize)
}

func addressOf(b []byte) uint64       { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
func addressOfRecord(r record) uint64 { return uint64(uintptr(unsafe.Pointer(r))) }
