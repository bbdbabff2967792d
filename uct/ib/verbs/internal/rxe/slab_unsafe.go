//go:build linux

package rxe

// Soundness: the cells of a slab are memory that Go's runtime does not manage and that
// stays mapped until the device is closed, after every object with a cell; so their
// addresses may be kept as numbers inside commands.

import "unsafe"

// addressOf is where memory is that does not move.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
