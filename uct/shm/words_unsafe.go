//go:build linux

package shm

// Soundness: word32 and word64 touch only memory inside the slice they are
// given, whose bounds are checked before a pointer is made; their callers pass
// offsets that are aligned in segments, which are mapped at page boundaries.
// elementAt checks nothing: it is given the elements of a ring and the position of one
// of them, which its owner keeps, and no element is shorter than what it returns.
// Mappings are no Go memory: the collector leaves such pointers alone, and the
// owner of a mapping unmaps it only when nothing holds pointers into it any
// more. addressOf reads a pointer's value and never makes it a pointer again.

import "unsafe"

// word32 is the 4 bytes of b at off, for package atomic.
func word32(b []byte, off int) *uint32 {
	return (*uint32)(unsafe.Pointer(unsafe.SliceData(b[off : off+4])))
}

// word64 is the 8 bytes of b at off.
func word64(b []byte, off int) *uint64 {
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(b[off : off+8])))
}

// elementAt is the beginning of the element at pos.
func elementAt(elems []byte, pos int) *[minElemSize]byte {
	return (*[minElemSize]byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(elems)), pos))
}

// firstWord is the first 4 bytes of an element.
func firstWord(el *[minElemSize]byte) *uint32 { return (*uint32)(unsafe.Pointer(el)) }

// addressOf is the address of the first byte of b, which must not be empty.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
