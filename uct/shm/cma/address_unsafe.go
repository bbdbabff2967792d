//go:build linux

package cma

// Soundness: the conversion only reads the address as a number, which this process never converts
// back to a pointer.

import "unsafe"

// addressOf returns the address of the first byte of b, as process_vm_readv takes it.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
