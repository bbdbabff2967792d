package fault

// Soundness: only reads a pointer's value; it is never made a pointer again.

import "unsafe"

// addressOf is the address of the first byte of b, which must not be empty.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
