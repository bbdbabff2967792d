//go:build linux

package tcp

import "github.com/ucx-go/ucx/uct"

// zcopy is the caller's memory that follows the buffered output: entries from
// index on, the first of them from offset on, left bytes in all. No operation is
// accepted behind it.
type zcopy struct {
	iov    []uct.IOV // the caller's list during its call, then own
	own    []uct.IOV // kept for the next time
	index  int
	offset int
	left   int
}

func (z *zcopy) advance(n int) {
	z.left -= n
	for n > 0 {
		rest := len(z.iov[z.index].Data) - z.offset
		if n < rest {
			z.offset += n
			return
		}
		n -= rest
		z.index++
		z.offset = 0
	}
	if z.left == 0 {
		z.reset()
	}
}

// keep copies what is left of the list: the caller reuses its own.
func (z *zcopy) keep() {
	if z.left > 0 {
		z.own = append(z.own[:0], z.iov[z.index:]...)
		z.iov, z.index = z.own, 0
	}
}

// reset forgets the caller's memory.
func (z *zcopy) reset() {
	clear(z.own)
	*z = zcopy{own: z.own[:0]}
}
