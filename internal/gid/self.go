//go:build amd64 || arm64

package gid

// Self returns the ID of the goroutine that calls: where the runtime keeps what it
// knows about it, which does not move and is not given back before its end.
func Self() ID { return ID(self()) }

// self returns the register that Go keeps for this (cmd/compile/abi-internal.md).
func self() uintptr
