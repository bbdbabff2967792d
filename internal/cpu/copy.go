package cpu

// Piece is the most that Copy copies in one go. Above some MiB the built-in copy
// changes to stores that pass the cache by, which halves the rate of what its
// receiver reads at once.
const Piece = 512 << 10

// Copy is the built-in copy, in pieces, of slices that do not overlap. Its vector loops
// are the right ones for memory that another CPU has just written: string instructions
// (REP MOVSB), which win by some percent where sender and receiver are in step, halve the
// rate of messages of 2 to 8 KiB as soon as the receiver has caught up with the sender.
func Copy(dst, src []byte) int {
	n := min(len(dst), len(src))
	dst, src = dst[:n], src[:n]
	for len(src) > Piece {
		copy(dst, src[:Piece])
		dst, src = dst[Piece:], src[Piece:]
	}
	copy(dst, src)
	return n
}
