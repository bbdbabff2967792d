//go:build linux

package mlx5

// Soundness: records and registers are words at aligned offsets of mappings, which
// slicing checks; they stay until the device is closed, after every object that uses
// them. Addresses of memory are given to the kernel as numbers: the mappings do not
// move, and objects of the kernel that know one are gone before it is.

import "unsafe"

func recordAt(page []byte, off int) record {
	return (*[2]uint32)(unsafe.Pointer(unsafe.SliceData(page[off:][:8])))
}

// bellAt is a register of 64 bits of a doorbell page.
func bellAt(page []byte, off int) *uint64 {
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(page[off&^7:][:8])))
}

// flameAt are the whole blocks in n bytes of a doorbell page.
func flameAt(page []byte, off, n int) [][8]uint64 {
	b := page[off&^7:][:n]
	return unsafe.Slice((*[8]uint64)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/blockSize)
}

func addressOf(b []byte) uint64       { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
func addressOfRecord(r record) uint64 { return uint64(uintptr(unsafe.Pointer(r))) }
