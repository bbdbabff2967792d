//go:build linux

package tcp

// The receive buffer of a connection. A connection has a full-sized buffer while it reads, and a
// buffer of suitable size while a frame is incomplete.

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

// largeBegun is the number of connections in the middle of a frame that may keep a large buffer
// between reads. Further connections keep only the bytes that have arrived, because the rest of a
// frame may never arrive.
const largeBegun = 64

// If the settings make buffers larger than by default, the number is limited to largeBytes of
// memory, but is at least fewLarge.
const (
	largeBytes = 256 << 20
	fewLarge   = 8
)

// mostLarge returns the limit for buffers of the given size.
func mostLarge(size int) int { return min(largeBegun, max(fewLarge, largeBytes/size)) }

// closeIn shrinks the receive buffer until the next read: to nothing if it is empty, to a piece
// with the part of a frame that has arrived, or not at all, so that there is room for the whole
// frame. moved says that something was received. The guest is charged for the size of a piece; for
// a large buffer, whose size depends on the settings, only for the bytes that have arrived, since
// mostLarge bounds the number of large buffers.
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

// closePiece is closeIn for a piece that was read into and has n bytes left. The piece grows
// twofold, so that a large frame which arrives in many reads is not copied at each of them, and
// shrinks to the part of the next frame that has arrived.
func (c *conn) closePiece(n int, moved bool) {
	b, pieces := c.in, &c.iface.svc.pieces
	if b.r == 0 && n < len(b.data) {
		c.iface.svc.slow.add(c, len(b.data), moved)
		return
	}
	want := n
	if b.r == 0 {
		want++ // the piece is full
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

// releaseIn returns the receive buffer to its pool.
func (c *conn) releaseIn() {
	if len(c.in.data) == c.iface.rxPool.size {
		c.iface.rxPool.put(c.in)
	} else {
		c.iface.svc.pieces.put(c.in)
	}
	c.in = nil
	c.iface.svc.slow.remove(c)
}
