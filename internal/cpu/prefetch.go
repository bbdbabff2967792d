//go:build amd64 || arm64

package cpu

// PrefetchWrite asks for the cache line of p, soon to be written. It is a hint:
// nothing happens if p points to nothing.
//
//go:noescape
func PrefetchWrite(p *byte)
