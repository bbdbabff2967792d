//go:build linux

package verbs

// Soundness: the pointer is the address of the slice's memory. It is passed only to the Pinner,
// which ignores memory that the Go runtime does not manage. It is converted to a number only while
// the memory is pinned.

import (
	"runtime"
	"unsafe"
)

// pin keeps the memory of b alive and in place until p is unpinned.
func pin(p *runtime.Pinner, b []byte) { p.Pin(unsafe.SliceData(b)) }

// addressOf returns the address of b, which must not move.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
