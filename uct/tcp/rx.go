//go:build linux

package tcp

import (
	"bytes"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// magicBytes are the bytes that an accepted connection must begin with.
var magicBytes = appendMagic(nil)

// read receives and handles the input that has arrived, in at most maxPoll+1 calls (without a
// bound if maxPoll is negative), and returns the number of things done.
func (c *conn) read() int {
	done := 0
	for polls := c.iface.opts.maxPoll; ; polls-- {
		n, more := c.readOnce()
		done += n
		if c.iface.svc.slow.over != nil {
			c.iface.svc.relieve()
		}
		if !more || polls == 0 || c.state >= stateStale || c.paused {
			return done
		}
	}
}

// readOnce makes one receive call and handles the input. done is the number of things done; more
// says that there is probably more to read.
func (c *conn) readOnce() (done int, more bool) {
	if c.put.left > 0 {
		return c.readPut()
	}
	if c.tls != nil {
		return c.tls.read()
	}
	b := c.openIn()
	space := b.data[b.w : b.w+c.readSize(b)]
	n, errno := sys.Recv(int(c.fd), space)
	if n == 0 {
		c.closeIn(false)
		return c.readFailed(errno), false
	}
	b.w += n
	return c.parse() + 1, n == len(space)
}

// Sizes of reads, in bytes.
const (
	// alignRead is the number of bytes that the current frame must still lack for a read to
	// stop at the frame's end. The next read then begins with a frame, which is not moved.
	alignRead = 4 << 10

	// bulkPut is the length from which on a put counts as bulk: another put is expected to
	// follow, whose payload should not pass through the buffer.
	bulkPut = 64 << 10

	// headRead is the size of the first read after a bulk put, enough for the frames between
	// bulk puts.
	headRead = 1 << 10
)

// readSize returns how many bytes to read into a buffer: as much as there is room for if frames
// are small, the rest of the current frame if it is large.
func (c *conn) readSize(b *buffer) int {
	size := min(len(b.data)-b.w, c.iface.maxRxFrame)
	if begun := b.w - b.r; begun >= hdrLen && c.state != stateMagic {
		lack := hdrLen + int(le.Uint32(b.data[b.r+1:])) - begun
		if lack >= alignRead {
			return min(size, lack)
		}
	}
	if c.bulk {
		c.bulk = false
		return min(size, headRead)
	}
	return size
}

// readFailed handles a receive call that returned no bytes. errno is its error, 0 at the end of the
// stream. It returns the number of things done.
func (c *conn) readFailed(errno unix.Errno) int {
	switch {
	case errno == unix.EAGAIN:
		return 0
	case errno != 0:
		c.lost("read", errno)
	case c.finished && c.state == stateConnected && c.ep != nil:
		c.halfClosed()
	default:
		c.lost("read", nil)
	}
	return 1
}

// halfClosed handles the end of the stream from a peer that has announced that it will not send
// any more. The peer may still receive. If the peer is gone, its kernel answers the next byte with
// a reset.
func (c *conn) halfClosed() {
	c.ended = true
	if c.in != nil {
		c.releaseIn() // the beginning of a frame whose rest will never arrive
	}
	c.src.Gone()
	c.watch(c.watched&^event.Read | event.Hup)
	c.ep.Check(nil)
}

// parse handles the whole frames in the receive buffer and returns their number. A handler may
// close this connection: the receive buffer is released only when parse ends.
func (c *conn) parse() int {
	b := c.in
	c.reading = true
	n := 0
	for c.state < stateStale && !c.paused && c.frame(b) {
		n++
	}
	c.reading, c.iface.svc.listenerAnswer.by = false, nil
	if c.state >= stateStale {
		c.releaseIn()
	} else {
		c.closeIn(true)
	}
	return n
}

// frame handles the first frame in b. It reports whether a whole frame was handled.
func (c *conn) frame(b *buffer) bool {
	buf := b.data[b.r:b.w]
	if c.state == stateMagic {
		return c.checkMagic(b, buf)
	}
	if len(buf) < hdrLen {
		return false
	}
	id, length := buf[0], uint(le.Uint32(buf[1:]))
	if id < uct.MaxAMIDs {
		if length > uint(c.iface.maxRxFrame-hdrLen) || c.state != stateConnected && !c.rx {
			c.badFrame(id, length)
			return false
		}
		end := hdrLen + int(length)
		if len(buf) < end {
			return false
		}
		b.r += end
		c.spoke = true
		if err := c.iface.handlers.Deliver(&c.src, uct.AMID(id), buf[hdrLen:end], nil); err != nil && err != ucs.InProgress {
			c.refuse(fmt.Errorf("active message %d refused by its handler: %w", id, err))
			return false
		}
		return true
	}
	return c.controlFrame(b, buf, id, length)
}

// checkMagic compares the received part of the magic number, with which an accepted connection
// begins, with the expected value. It closes the connection if they differ. It reports whether the
// whole magic number has arrived.
func (c *conn) checkMagic(b *buffer, buf []byte) bool {
	n := min(len(buf), magicLen)
	if !bytes.Equal(buf[:n], magicBytes[:n]) {
		c.close()
		return false
	}
	if n < magicLen {
		return false
	}
	b.r += magicLen
	c.state = stateAccepting
	return true
}

// controlFrame handles a frame that is not an active message.
func (c *conn) controlFrame(b *buffer, buf []byte, id byte, length uint) bool {
	fits := false
	open := c.state == stateConnected || c.rx
	switch id {
	case idCM:
		fits = length <= reqLen+sockaddrLen6
	case idPutReq:
		fits = length == putReqLen && open
	case idPutAck:
		fits = length == putAckLen && open
	case idKeepalive:
		fits = length == 0 && open
	}
	if !fits {
		c.badFrame(id, length)
		return false
	}
	end := hdrLen + int(length)
	if len(buf) < end {
		return false
	}
	b.r += end
	payload := buf[hdrLen:end]
	switch id {
	case idCM:
		c.handleCM(payload)
	case idPutReq:
		return c.beginPut(b, parsePutHeader(payload))
	case idPutAck:
		c.acked(le.Uint32(payload))
	}
	return true
}

func (c *conn) badFrame(id byte, length uint) {
	c.refuse(fmt.Errorf("frame with id %d and %d bytes: %w", id, length, errProtocol))
}

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

// Limits that replace largeBegun if the settings make buffers larger than by default: the large
// buffers take at most largeBytes of memory, but fewLarge buffers are always allowed.
const (
	largeBytes = 256 << 20
	fewLarge   = 8
)

// mostLarge returns how many connections may keep a large buffer between reads, given the size of a
// large buffer in bytes.
func mostLarge(size int) int { return min(largeBegun, max(fewLarge, largeBytes/size)) }

// closeIn shrinks the receive buffer until the next read. An empty buffer is released. A buffer
// with an incomplete frame is replaced by a piece (pool.go), or is kept, so that there is room for
// the whole frame. moved says that something was received. The guest is charged for the size of a
// piece; for a large buffer, whose size depends on the settings, only for the bytes that have
// arrived, since mostLarge bounds the number of large buffers.
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

// putRecv is a put whose payload is still arriving.
type putRecv struct {
	region *region
	gen    uint64 // generation of the last registration when the put began
	addr   uint64 // address of the next byte
	at     int    // offset of the next byte in the region
	left   int    // bytes still to arrive
	sn     uint32
	held   bool // the put is counted in region.arriving
}

// maxPutRead is the largest number of bytes in one system call that copies a put's payload, so
// that the scheduler and other connections are not kept waiting.
const maxPutRead = 1 << 20

// beginPut handles the announcement of a put. It copies the part of the payload that is buffered;
// readPut receives the rest. It returns false if the put is refused.
func (c *conn) beginPut(b *buffer, h putHeader) bool {
	if h.length == 0 {
		c.putDone(h.sn)
		return true
	}
	c.identify()
	r, at, gen := c.iface.md.exposed.find(c, h.addr, h.length, anyGen)
	if r == nil {
		c.refuse(fmt.Errorf("put of %d bytes to address 0x%x: %w", h.length, h.addr, errForbidden))
		return false
	}
	c.put = putRecv{region: r, gen: gen, addr: h.addr, at: at, left: int(h.length), sn: h.sn}
	c.bulk = h.length >= bulkPut
	n := min(b.w-b.r, c.put.left)
	target := c.openTarget(n)
	if target == nil {
		return false
	}
	copy(target, b.data[b.r:])
	c.put.region.release()
	b.r += n
	c.advancePut(n)
	c.put.hold()
	return true
}

// openTarget returns the next n bytes of the target memory, which cannot be deregistered until
// region.release. If the target is not registered any more, openTarget drops the connection and
// returns nil.
func (c *conn) openTarget(n int) []byte {
	p := &c.put
	for !p.region.acquire(p.gen) {
		// The memory may have been exposed more than once.
		c.identify()
		r, at, _ := c.iface.md.exposed.find(c, p.addr, uint64(p.left), p.gen)
		if r == nil {
			c.refuse(fmt.Errorf("the target was deregistered with %d bytes outstanding: %w", p.left, errForbidden))
			return nil
		}
		p.drop()
		p.region, p.at = r, at
		p.hold()
	}
	return p.region.buf[p.at : p.at+n : p.at+n]
}

// readPut receives payload directly into the target. Its results are those of readOnce.
func (c *conn) readPut() (done int, more bool) {
	want := min(c.put.left, maxPutRead)
	target := c.openTarget(want)
	if target == nil {
		return 1, false
	}
	n, errno := sys.Recv(int(c.fd), target)
	c.put.region.release()
	if n == 0 {
		return c.readFailed(errno), false
	}
	c.advancePut(n)
	// After the payload, the next frame has often arrived too.
	return 1, n == want
}

// advancePut accounts for n bytes written to the target.
func (c *conn) advancePut(n int) {
	c.spoke = true
	c.put.addr += uint64(n)
	c.put.at += n
	c.put.left -= n
	if c.put.left == 0 {
		c.putDone(c.put.sn)
	}
}

// putDone acknowledges the put. Acknowledgements are cumulative, so the puts of one read are
// acknowledged at once. If another put completes before the acknowledgement could be sent, only the
// later one is sent, as in C UCX.
func (c *conn) putDone(sn uint32) {
	c.owedSN = sn
	c.put.drop()
	c.put = putRecv{}
	c.owe(owedPutAck)
}
