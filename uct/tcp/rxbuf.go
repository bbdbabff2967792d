//go:build linux

package tcp

// The receive buffer of a connection: it has one while it reads and, of the right
// size, while a frame is incomplete.

// openIn returns a receive buffer with room.
func (c *conn) openIn() *buffer {
	b, pool := c.in, c.iface.rxPool
	if b != nil && (len(b.data) == pool.size || len(b.data) > bigPiece && b.w < len(b.data)) {
		return b
	}
	big := pool.get()
	c.in = big
	if b != nil {
		big.w = copy(big.data, b.data[b.r:b.w])
		c.iface.svc.pieces.put(b)
	}
	return big
}

// largeBegun is the number of connections in the middle of a frame that may keep a
// large buffer between reads. Beyond it each keeps only what has arrived: what a
// frame claims to be may never come.
const largeBegun = 64

// Of buffers that the settings make larger than by default it is as many as have
// largeBytes, and fewLarge at least.
const (
	largeBytes = 256 << 20
	fewLarge   = 8
)

// mostLarge is the number for buffers of a size.
func mostLarge(size int) int { return min(largeBegun, max(fewLarge, largeBytes/size)) }

// closeIn leaves the receive buffer until the next read: not at all, with just
// the piece of a frame that is there, or with room for all of it. moved says that
// something was received. Charged is what has arrived, up to the size of a piece: a
// large buffer is as large as the settings make it, and mostLarge bounds their number.
func (c *conn) closeIn(moved bool) {
	b := c.in
	n := b.w - b.r
	if n == 0 {
		c.releaseIn()
		return
	}
	if len(b.data) != c.iface.rxPool.size {
		c.closePiece(n, moved)
		return
	}
	if n <= smallPiece || c.paused || c.iface.rxPool.used > c.iface.maxLarge {
		if piece := c.iface.svc.pieces.get(n, len(b.data)); piece != nil {
			piece.w = copy(piece.data, b.data[b.r:b.w])
			c.releaseIn()
			c.in = piece
			c.iface.svc.slow.add(c, len(piece.data), moved)
			return
		}
	}
	if len(b.data)-b.r < c.iface.maxRxFrame || b.w == len(b.data) {
		b.w = copy(b.data, b.data[b.r:b.w])
		b.r = 0
	}
	c.iface.svc.slow.add(c, n, moved)
}

// closePiece is closeIn for a piece with n bytes that was read into. It grows twofold, so
// that a large frame which comes in many reads is not copied with each of them, and shrinks
// to what a next frame has in it.
func (c *conn) closePiece(n int, moved bool) {
	b, pieces := c.in, &c.iface.svc.pieces
	if b.r == 0 && n < len(b.data) {
		c.iface.svc.slow.add(c, len(b.data), moved)
		return
	}
	want := n
	if b.r == 0 {
		want++ // it is full
	}
	next := pieces.get(want, c.iface.rxPool.size)
	if next == nil {
		next = c.iface.rxPool.get()
	}
	next.w = copy(next.data, b.data[b.r:b.w])
	pieces.put(b)
	c.in = next
	c.iface.svc.slow.add(c, min(len(next.data), 2*want), moved)
}

// releaseIn gives the receive buffer back.
func (c *conn) releaseIn() {
	if len(c.in.data) == c.iface.rxPool.size {
		c.iface.rxPool.put(c.in)
	} else {
		c.iface.svc.pieces.put(c.in)
	}
	c.in = nil
	c.iface.svc.slow.remove(c)
}
