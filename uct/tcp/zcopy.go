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
	copied bool // it is a copy of ours
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

// copyRest copies what is left of the caller's memory, which is the caller's again then.
func (z *zcopy) copyRest() {
	if z.left == 0 || z.copied {
		return
	}
	b := make([]byte, 0, z.left)
	for offset := z.offset; z.index < len(z.iov); z.index++ {
		b = append(b, z.iov[z.index].Data[offset:]...)
		offset = 0
	}
	clear(z.own)
	z.own = append(z.own[:0], uct.IOV{Data: b})
	z.iov, z.index, z.offset, z.copied = z.own, 0, 0, true
}

// reset forgets the caller's memory.
func (z *zcopy) reset() {
	clear(z.own)
	*z = zcopy{own: z.own[:0]}
}

var _ uct.MemoryKeeper = (*endpoint)(nil)

// KeepMemory implements uct.MemoryKeeper.
func (ep *endpoint) KeepMemory() {
	for _, c := range []*conn{ep.conn, ep.stale} {
		if c != nil {
			c.zc.copyRest()
		}
	}
}
