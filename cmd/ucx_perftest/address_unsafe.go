//go:build linux

package main

// Soundness: the address is only a number that is sent to the peer; nothing dereferences it.

import "unsafe"

// addressOf returns the address of a buffer's first byte, which the peer uses in remote accesses.
func addressOf(b []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }
