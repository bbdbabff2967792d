//go:build linux

package tcp

import "github.com/ucx-go/ucx/uct"

// zcopy is the caller's memory to be written after the buffered output: the entries from index on,
// the first of them from offset on, left bytes in all. No operation is accepted until all of it is
// written.
type zcopy struct {
	iov    []uct.IOV // the caller's list during its call, own afterwards
	own    []uct.IOV // a list that is reused
	index  int
	offset int
	left   int
	copied bool // the bytes are a copy, not the caller's memory
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

// keep copies the rest of the list, because the caller reuses its own list after the call.
func (z *zcopy) keep() {
	if z.left > 0 {
		z.own = append(z.own[:0], z.iov[z.index:]...)
		z.iov, z.index = z.own, 0
	}
}

// copyRest copies the rest of the caller's memory, so that the caller may use that memory again.
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

// reset drops the references to the caller's memory.
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
