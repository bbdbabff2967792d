//go:build linux && (amd64 || arm64)

package run_test

// Soundness: the memory is a mapping, which does not move, and its address is for system
// calls only, whose arguments are wrong on purpose: the kernel checks them.

import "unsafe"

// address is where memory is.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
