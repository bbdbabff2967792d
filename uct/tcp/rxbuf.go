//go:build linux

package tcp

// The receive buffer of a connection: it has one while it reads and, of the right
// size, while a frame is incomplete.

// openIn returns a receive buffer with room.
func (c *conn) openIn() *buffer {
	b, pool := c.in, c.iface.rxPool
	if b != nil && len(b.data) == pool.size {
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

// closeIn leaves the receive buffer until the next read: not at all, with just
// the piece of a frame that is there, or with room for all of it. moved says that
// something was received.
func (c *conn) closeIn(moved bool) {
	b := c.in
	n := b.w - b.r
	if n == 0 {
		c.releaseIn()
		return
	}
	if n <= smallPiece || c.paused || c.iface.rxPool.used > largeBegun {
		if piece := c.iface.svc.pieces.get(n); piece != nil {
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
	c.iface.svc.slow.add(c, len(b.data), moved)
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
