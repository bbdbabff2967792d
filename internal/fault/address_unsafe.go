package fault

// Soundness: the code only reads a pointer's value, which never becomes a pointer again.

import "unsafe"

// addressOf returns the address of the first byte of b, which must not be empty.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
