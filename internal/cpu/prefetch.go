//go:build amd64 || arm64

package cpu

// PrefetchWrite prefetches the cache line at the address p for writing. It is a hint: an invalid
// address has no effect.
func PrefetchWrite(p uintptr)
