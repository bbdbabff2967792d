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

// readOnce makes one call for input. more says that there is probably more to read.
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

	// bulkPut is the length from which on a put is expected to be followed by another one,
	// whose payload should not pass through the buffer.
	bulkPut = 64 << 10

	// headRead is enough for the frames between bulk puts.
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

// readFailed handles a call that received nothing: errno is its error, 0 the end of the stream.
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
	c.reading, c.iface.svc.heard.by = false, nil
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

// checkMagic compares the first bytes of an accepted connection, as many as have arrived, with
// the magic number.
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
