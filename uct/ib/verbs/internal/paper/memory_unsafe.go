//go:build linux

package paper

// Soundness: queues are mapped memory that stays until their object is gone here and
// in the adapter; their addresses are given to the adapter as numbers, which is in
// this process and makes slices of them while the object lives.

import "unsafe"

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

func memory(addr uint64, n int) []byte { return unsafe.Slice(*(**byte)(unsafe.Pointer(&addr)), n) }
