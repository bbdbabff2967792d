//go:build amd64 || arm64

package gid

// Self returns the ID of the calling goroutine: the address of the runtime's descriptor of it,
// which does not move and is not reused before the goroutine ends.
func Self() ID { return ID(self()) }

// self returns the register that holds that address (cmd/compile/abi-internal.md).
func self() uintptr
