//go:build linux

package tcp

import (
	"fmt"

	"github.com/ucx-go/ucx/internal/sys"
)

// putRecv is a put whose payload is still arriving.
type putRecv struct {
	region *region
	gen    uint64 // number of the last registration when the put began
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
			c.refuse(fmt.Errorf("the target was deregistered with %d bytes to come: %w", p.left, errForbidden))
			return nil
		}
		p.drop()
		p.region, p.at = r, at
		p.hold()
	}
	return p.region.buf[p.at : p.at+n : p.at+n]
}

// readPut receives payload directly into the target.
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
