//go:build linux

package verbstest

// Soundness: an address is made a number, of mapped memory that stays.

import "unsafe"

func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
