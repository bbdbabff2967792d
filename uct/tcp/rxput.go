//go:build linux

package tcp

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/sys"
)

// putRecv is a put whose payload is still arriving.
type putRecv struct {
	region *region
	gen    uint64 // the last registration when the put began
	addr   uint64 // where the next byte goes
	at     int    // the same in the region
	left   int    // bytes that are still to come
	sn     uint32
	held   bool // counted as arriving in the region
}

// maxPutRead bounds one call that copies a put's payload, so that the scheduler
// and other connections are not kept waiting.
const maxPutRead = 1 << 20

// beginPut handles the announcement of a put: it takes what is buffered of the
// payload; readPut gets the rest.
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

// openTarget returns the next n bytes of the target and keeps them from being
// deregistered until region.release. It drops a connection whose target is gone
// and returns nil.
func (c *conn) openTarget(n int) []byte {
	p := &c.put
	for !p.region.acquire(p.gen) {
		// The memory may have been exposed more than once.
		c.identify()
		r, at, _ := c.iface.md.exposed.find(c, p.addr, uint64(p.left), p.gen)
		if r == nil {
			c.refuse(fmt.Errorf("the target was deregistered with %d bytes to come: %w", p.left, errForbidden))
			return nil
		}
		p.drop()
		p.region, p.at = r, at
		p.hold()
	}
	return p.region.buf[p.at : p.at+n : p.at+n]
}

// readPut reads payload straight into the target.
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
	// After the payload, the next frame is often there too.
	return 1, n == want
}

// advancePut accounts for n bytes in place.
func (c *conn) advancePut(n int) {
	c.spoke = true
	c.put.addr += uint64(n)
	c.put.at += n
	c.put.left -= n
	if c.put.left == 0 {
		c.putDone(c.put.sn)
	}
}

// putDone acknowledges the put. Acknowledgements are cumulative, so those of one
// read leave as one; if another put begins before it could leave, the earlier one
// is left out as C UCX does.
func (c *conn) putDone(sn uint32) {
	c.owedSN = sn
	c.put.drop()
	c.put = putRecv{}
	c.owe(owedPutAck)
}
