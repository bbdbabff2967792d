//go:build linux

package shm

// Soundness: word32 and word64 touch only memory inside their slice argument, whose bounds are
// checked before a pointer is made. Their callers pass offsets that are aligned in segments,
// and segments are mapped at page boundaries. elementAt checks nothing: its arguments are the
// elements of a ring and the position of one element, which the user of the ring keeps in
// private memory, and no element is shorter than the result. Mappings are no Go memory: the
// garbage collector ignores pointers into them, and the owner of a mapping unmaps it only when
// no pointers into the mapping are left. addressOf reads a pointer's value and never makes that
// value a pointer again.

import "unsafe"

// word32 returns the 4 bytes of b at off, for package atomic.
func word32(b []byte, off int) *uint32 {
	return (*uint32)(unsafe.Pointer(unsafe.SliceData(b[off : off+4])))
}

// word64 returns the 8 bytes of b at off, for package atomic.
func word64(b []byte, off int) *uint64 {
	return (*uint64)(unsafe.Pointer(unsafe.SliceData(b[off : off+8])))
}

// elementAt returns the beginning of the element at pos.
func elementAt(elems []byte, pos int) *[minElemSize]byte {
	return (*[minElemSize]byte)(unsafe.Add(unsafe.Pointer(unsafe.SliceData(elems)), pos))
}

// firstWord returns the first 4 bytes of an element.
func firstWord(el *[minElemSize]byte) *uint32 { return (*uint32)(unsafe.Pointer(el)) }

// addressOf returns the address of the first byte of b, which must not be empty.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
