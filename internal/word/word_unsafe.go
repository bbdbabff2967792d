package word

// Soundness: the words lie inside the given slice (slicing checks the length, and reads no bytes,
// which others may be writing); callers check the alignment. The byte slice of a word has exactly
// the size of the word, and addresses are used as numbers only.

import "unsafe"

func word32(b []byte) *uint32 { return (*uint32)(unsafe.Pointer(unsafe.SliceData(b[:4]))) }

func word64(b []byte) *uint64 { return (*uint64)(unsafe.Pointer(unsafe.SliceData(b[:8]))) }

// Address returns the address of the first byte of b as a number, as messages contain it. No memory
// is accessed through that number.
func Address(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// Size returns the size of a word in bytes, a constant of each type.
func Size[T ~uint32 | ~uint64]() uintptr { return unsafe.Sizeof(*new(T)) }

// Bytes returns the bytes of a word. They need no alignment and hold no pointers, and the slice
// keeps the word alive.
func Bytes[T ~uint32 | ~uint64](p *T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(p)), Size[T]())
}
