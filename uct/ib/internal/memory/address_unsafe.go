//go:build linux

package memory

// Soundness: the address of a buffer is compared with that of registered memory, which does not
// move. The address is never converted back to a pointer.

import "unsafe"

// addressOf returns the address of memory that does not move.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
