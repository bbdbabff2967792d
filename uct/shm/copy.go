package shm

// copyPiece is how much is copied in one go: above it Go's memory copy changes
// to stores that pass the cache by, which halves the rate of a few MiB.
const copyPiece = 512 << 10

// copyMemory copies src to dst, which has at least its length.
func copyMemory(dst, src []byte) {
	for len(src) > copyPiece {
		copy(dst, src[:copyPiece])
		dst, src = dst[copyPiece:], src[copyPiece:]
	}
	copy(dst, src)
}
