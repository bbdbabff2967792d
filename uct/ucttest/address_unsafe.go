package ucttest

// Soundness: only the value of the pointer is read; it is never made a pointer
// again.

import "unsafe"

// AddressOf returns the address of the first byte of b, which must not be empty. Peers use it
// as the remote address.
func AddressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(&b[0]))) }
