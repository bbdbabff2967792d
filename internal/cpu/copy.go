package cpu

// Piece is the most that Copy copies in one call of the built-in copy. Above some MiB the built-in
// copy switches to non-temporal stores, which bypass the cache and halve the rate if the receiver
// reads the data soon.
const Piece = 512 << 10

// Copy copies slices that do not overlap with the built-in copy, in pieces. The vector loops of the
// built-in copy are best for memory that another CPU has just written: string instructions (REP
// MOVSB) win by some percent while sender and receiver run in step, but halve the rate of messages
// of 2 to 8 KiB as soon as the receiver has caught up with the sender.
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
