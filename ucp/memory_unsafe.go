package ucp

// Only turns an address into the number that travels in messages; nothing is
// read or written through it.

import "unsafe"

// memoryAddress is the address of b as peers name it.
func memoryAddress(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
