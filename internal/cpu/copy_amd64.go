//go:build !race

package cpu

import "golang.org/x/sys/cpu"

// repMovsb copies n bytes by a string instruction.
//
//go:noescape
func repMovsb(dst, src *byte, n int)

// fromBytes is the length from which string instructions are used. Below, starting
// one costs more than it saves. They are used where the processor says that they
// are fast for any alignment.
var fromBytes = func() int {
	if cpu.X86.HasERMS {
		return 2 << 10
	}
	return maxInt
}()

const maxInt = int(^uint(0) >> 1)

// Copy is the built-in copy for memory that another CPU has just written, or will
// read next: there string instructions are some percent faster than the vector
// loops of the runtime. The slices must not overlap.
func Copy(dst, src []byte) int {
	n := min(len(dst), len(src))
	if n < fromBytes {
		return copy(dst, src)
	}
	repMovsb(&dst[0], &src[0], n)
	return n
}
