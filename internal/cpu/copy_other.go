//go:build !amd64 || race

package cpu

// Copy is the built-in copy. The slices must not overlap.
func Copy(dst, src []byte) int { return copy(dst, src) }
