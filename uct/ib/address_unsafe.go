//go:build linux

package ib

// Soundness: an address is compared with that of memory which is registered, and so does
// not move; it is never made a pointer again.

import "unsafe"

// addressOf is where memory is that does not move.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
