package ucp

// This file uses unsafe only to convert an address into the number that messages contain. No memory
// is accessed through that number.

import "unsafe"

// memoryAddress returns the address of the first byte of b, as peers name it.
func memoryAddress(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
