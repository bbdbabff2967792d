//go:build linux

package tcp

// Soundness: the address is only a number. It is published to peers and compared with the
// addresses that peers send. Memory is accessed only through the slice that the address was
// taken from.

import "unsafe"

// addressOf returns the address of the first byte of b, which is not empty.
func addressOf(b []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}
