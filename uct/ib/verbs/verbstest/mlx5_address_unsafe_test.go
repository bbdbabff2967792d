//go:build linux

package verbstest

// Soundness: the address of mapped memory, which does not move, becomes a number.

import "unsafe"

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
