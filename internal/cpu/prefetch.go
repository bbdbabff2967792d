//go:build amd64 || arm64

package cpu

// PrefetchWrite prefetches the cache line of p for writing. It is a hint: an invalid p has no
// effect.
//
//go:noescape
func PrefetchWrite(p *byte)
