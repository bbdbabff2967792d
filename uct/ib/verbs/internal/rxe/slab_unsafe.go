//go:build linux

package rxe

// Soundness: the cells of a slab are memory that the Go runtime does not manage. They stay mapped
// until the device is closed, which happens after every object with a cell is closed. So commands
// may contain the addresses of cells as numbers.

import "unsafe"

// addressOf returns the address of b, which must not move.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
