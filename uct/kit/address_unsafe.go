package kit

// Soundness: the code only reads the value of a pointer and never converts it back to a
// pointer.

import "unsafe"

// addressOf returns the address of the first byte of b, which must not be empty.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
