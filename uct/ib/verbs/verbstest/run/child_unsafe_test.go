//go:build linux && (amd64 || arm64)

package run_test

// Soundness: the memory is a mapping, which does not move. Its address is used only for system
// calls, whose arguments are invalid on purpose: the kernel checks them.

import "unsafe"

// address returns the address of memory.
func address(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
