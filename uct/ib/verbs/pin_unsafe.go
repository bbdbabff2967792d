//go:build linux

package verbs

// Soundness: the pointer is that of the slice; it is handed to the Pinner only,
// which does nothing for memory that is not Go's, and is made a number only while the
// memory is pinned.

import (
	"runtime"
	"unsafe"
)

// pin keeps the memory of b alive and in place until p is unpinned.
func pin(p *runtime.Pinner, b []byte) { p.Pin(unsafe.SliceData(b)) }

// addressOf is where memory is that does not move.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
