//go:build linux

package cma

// Soundness: the conversion only reads the number of the address; nothing is
// made of it in this process again.

import "unsafe"

// addressOf is the address of the first byte, as the kernel takes it.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
