//go:build linux

package tcp

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// AMShort implements uct.Endpoint.
func (ep *endpoint) AMShort(id uct.AMID, header uint64, payload []byte, flags uct.SendFlags, comp *uct.Completion) error {
	n := 8 + len(payload)
	if n > ep.iface.attr.AM.MaxShort || id >= uct.MaxAMIDs {
		return ep.badLength("short", id, n, ep.iface.attr.AM.MaxShort)
	}
	c, frame, now, err := ep.begin(hdrLen+n, flags)
	if err != nil {
		return err
	}
	putFrameHeader(frame, uint8(id), n)
	le.PutUint64(frame[hdrLen:], header)
	if now && len(payload) > ep.iface.opts.sendv {
		return c.commitWith(frame, payload, flags, comp)
	}
	copy(frame[hdrLen+8:], payload)
	return c.commit(frame, now, flags, comp)
}

// AMShortIOV implements uct.Endpoint.
func (ep *endpoint) AMShortIOV(id uct.AMID, iov []uct.IOV, flags uct.SendFlags, comp *uct.Completion) error {
	n := uct.IOVLen(iov)
	if n > ep.iface.attr.AM.MaxShort || id >= uct.MaxAMIDs {
		return ep.badLength("short", id, n, ep.iface.attr.AM.MaxShort)
	}
	c, frame, now, err := ep.begin(hdrLen+n, flags)
	if err != nil {
		return err
	}
	putFrameHeader(frame, uint8(id), n)
	at := hdrLen
	for i := range iov {
		at += copy(frame[at:], iov[i].Data)
	}
	return c.commit(frame, now, flags, comp)
}

// AMBcopy implements uct.Endpoint.
func (ep *endpoint) AMBcopy(id uct.AMID, p uct.Packer, flags uct.SendFlags, comp *uct.Completion) (int, error) {
	limit := ep.iface.attr.AM.MaxBcopy
	if id >= uct.MaxAMIDs {
		return 0, ep.badLength("bcopy", id, 0, limit)
	}
	if flags&uct.SendNow != 0 && !ep.writable() {
		return 0, ep.notReady()
	}
	c, frame, now, err := ep.begin(hdrLen+limit, flags)
	if err != nil {
		return 0, err
	}
	n := p.Pack(frame[hdrLen : hdrLen+limit : hdrLen+limit])
	putFrameHeader(frame, uint8(id), n)
	// What was packed cannot be taken back, so SendNow was checked above, before packing.
	return n, c.commit(frame[:hdrLen+n], now, 0, comp)
}

// AMZcopy implements uct.Endpoint.
func (ep *endpoint) AMZcopy(id uct.AMID, hdr uct.Packer, iov []uct.IOV, flags uct.SendFlags, comp *uct.Completion) error {
	a := &ep.iface.attr.AM
	if a.MaxZcopy == 0 {
		return ucs.ErrUnsupported
	}
	total := uct.IOVLen(iov)
	if total > a.MaxZcopy || len(iov) > a.MaxIOV || id >= uct.MaxAMIDs {
		return ep.badLength("zcopy", id, total, a.MaxZcopy)
	}
	if flags&uct.SendNow != 0 && !ep.writable() {
		return ep.notReady()
	}
	c, frame, _, err := ep.begin(hdrLen+a.MaxZcopyHdr, flags)
	if err != nil {
		return err
	}
	n := 0
	if hdr != nil {
		n = hdr.Pack(frame[hdrLen : hdrLen+a.MaxZcopyHdr : hdrLen+a.MaxZcopyHdr])
	}
	if n+total > a.MaxZcopy {
		c.unqueue(0)
		return ep.badLength("zcopy", id, n+total, a.MaxZcopy)
	}
	putFrameHeader(frame, uint8(id), n+total)
	c.queued(hdrLen + n)
	c.probe = true
	if !c.gather(iov, total) && c.state == stateClosed {
		return ep.err
	}
	if c.written == c.accepted {
		return nil
	}
	c.track(comp)
	return ucs.InProgress
}

// gather appends the caller's memory iov, total bytes, to the connection's output and writes the
// output. It reports whether everything was written.
func (c *conn) gather(iov []uct.IOV, total int) bool {
	if total > 0 {
		c.zc.iov, c.zc.left = iov, total
		c.accepted += uint64(total)
	}
	c.sentEpoch = c.iface.svc.w.Epoch()
	if !c.write() {
		c.zc.keep()
		// Completions of earlier operations may be due.
		c.iface.svc.markDirty(c)
		return false
	}
	if c.writes.head != nil {
		c.iface.svc.markDirty(c)
	}
	return true
}

// begin returns the endpoint's connection and room for a frame of n bytes at the end of its output.
// now reports whether the frame is to be written at once: it is the first frame of this round on a
// connection without waiting output, or flags has SendNow. The error is that of notReady if the
// operation cannot start now.
func (ep *endpoint) begin(n int, flags uct.SendFlags) (c *conn, frame []byte, now bool, err error) {
	c, err = ep.ready()
	if err != nil {
		return nil, nil, false, err
	}
	if flags&uct.SendNow != 0 && c.tls != nil && !ep.writable() {
		return nil, nil, false, ep.notReady() // sealed output cannot be taken back
	}
	b := c.out
	now = b == nil && c.sentEpoch != c.iface.svc.w.Epoch()
	if flags&uct.SendNow != 0 {
		if b != nil && (c.blocked || !c.write()) {
			return nil, nil, false, ep.notReady()
		}
		b, now = c.out, true
	}
	if b == nil || len(b.data)-b.w < n {
		if c.room(n) == nil {
			c.iface.svc.markDirty(c)
			return nil, nil, false, ep.notReady()
		}
		b = c.out
	}
	return c, b.data[b.w : b.w+n], now, nil
}

// commit adds a frame that was written into the room that begin returned to the output, and writes
// the output if now is set. It returns nil if everything was written, and ucs.InProgress if comp is
// completed later. With SendNow it removes a frame of which nothing could be written, and returns
// ucs.ErrNoResource.
func (c *conn) commit(frame []byte, now bool, flags uct.SendFlags, comp *uct.Completion) error {
	ep := c.ep
	c.queued(len(frame))
	c.probe = true
	if now {
		c.sentEpoch = c.iface.svc.w.Epoch()
		before := c.written
		if c.write() {
			return nil
		}
		if c.state == stateClosed {
			return ep.err
		}
		if flags&uct.SendNow != 0 && c.written == before && (c.tls == nil || !c.tls.begun()) {
			c.unqueue(len(frame))
			return ucs.ErrNoResource
		}
	}
	c.track(comp)
	c.iface.svc.markDirty(c)
	return ucs.InProgress
}

// commitWith is commit for the first frame of a round whose payload has not been copied into the
// frame yet: it writes the payload from the caller's memory, and copies only the bytes that the
// kernel does not take.
func (c *conn) commitWith(frame, payload []byte, flags uct.SendFlags, comp *uct.Completion) error {
	head := len(frame) - len(payload)
	v := &c.iface.svc.vec
	v.Add(frame[:head])
	v.Add(payload)
	n, errno := sys.SendVec(int(c.fd), v, 0)
	v.Reset()
	c.sentEpoch = c.iface.svc.w.Epoch()
	c.probe = true
	switch {
	case errno != 0 && errno != unix.EAGAIN:
		ep := c.ep
		c.lost("write", errno)
		return ep.err
	case n == 0 && flags&uct.SendNow != 0:
		c.unqueue(0)
		c.block()
		return ucs.ErrNoResource
	}
	done := max(n, head)
	copy(frame[done:], payload[done-head:])
	c.queued(len(frame))
	c.sent(n)
	if n == len(frame) {
		return nil
	}
	c.block()
	c.track(comp)
	c.iface.svc.markDirty(c)
	return ucs.InProgress
}

// writable writes the collected output and reports whether the socket takes more. Only operations
// with SendNow call it, before they pack a message.
func (ep *endpoint) writable() bool {
	c, err := ep.ready()
	if err != nil || c.blocked || !c.write() {
		return false
	}
	fds := [1]unix.PollFd{{Fd: c.fd, Events: unix.POLLOUT}}
	if n, err := unix.Poll(fds[:], 0); err != nil || n != 1 {
		c.block() // so that pending requests are resumed when the socket is writable
		return false
	}
	return true
}

//go:noinline
func (ep *endpoint) badLength(kind string, id uct.AMID, n, limit int) error {
	return fmt.Errorf("tcp: %s message with id %d and %d bytes, the limit is %d: %w", kind, id, n, limit, ucs.ErrInvalidParam)
}

// zcopy is the caller's memory that is still to be written after the buffered output: the entries
// of iov from index on, the first of them from offset on, in all left bytes. No operation is
// accepted until all of it is written.
type zcopy struct {
	iov    []uct.IOV // the caller's list during its call, afterwards the list in the field own
	own    []uct.IOV // copy of the caller's list; its array is reused
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

// CopyUnsent implements uct.NetworkEndpoint.
func (ep *endpoint) CopyUnsent() bool {
	for _, c := range []*conn{ep.conn, ep.stale} {
		if c != nil {
			c.zc.copyRest()
		}
	}
	return true
}
