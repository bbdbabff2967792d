//go:build linux

package tcp

// Soundness: the address is only a number, published to peers and compared with
// what they send; memory is reached through the slice it was taken from.

import "unsafe"

// addressOf returns the address of the first byte of b, which is not empty.
func addressOf(b []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))
}
