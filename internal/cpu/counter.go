//go:build amd64 || arm64

package cpu

// Counter reads the processor's time counter, which costs some ten cycles and no system call. Its
// rate is not guaranteed: in a virtual machine it may run at any rate, and other processors may
// have another value.
func Counter() uint64
