//go:build linux

package tcp

import (
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/internal/sys"
	"github.com/ucx-go/ucx/ucs/event"
)

// owed is a set of control frames that are not queued yet. They wait until zero-copy memory of the
// caller that precedes them is written.
type owed uint8

const (
	owedAck    owed = 1 << iota // reply to a request
	owedAckReq                  // reply to a request, together with a request of this side
	owedReq                     // request on a connection that an endpoint has taken over
	owedPutAck                  // acknowledgement of puts, coalesced
	owedFin                     // notice that this side will send nothing any more
)

// owe marks control frames as owed. They are sent with the next write.
func (c *conn) owe(o owed) {
	c.owed |= o
	c.iface.svc.markDirty(c)
}

// pay queues the owed control frames if there is room and no zero-copy memory is left to write,
// and reports whether there is output.
func (c *conn) pay() bool {
	if c.owed != 0 && c.zc.left == 0 {
		if b := c.room(maxControl); b != nil {
			start := len(b)
			if c.owed&owedAck != 0 {
				b = appendEvent(b, eventAck)
			}
			if c.owed&owedAckReq != 0 {
				b = appendEvent(b, eventAckReq)
			}
			if c.owed&owedReq != 0 {
				b = appendRequest(b, request{id: c.sn, from: c.iface.addr})
			}
			if c.owed&owedPutAck != 0 {
				b = appendPutAck(b, c.owedSN)
			}
			if c.owed&owedFin != 0 {
				b = appendEvent(b, eventFin)
			}
			c.owed = 0
			c.queued(len(b) - start)
		}
	}
	return c.written != c.accepted
}

// room returns the output so far, with capacity for n more bytes. The caller appends to it and then
// calls the method queued with the number of bytes. room returns nil if the output is full and the
// kernel does not take it.
func (c *conn) room(n int) []byte {
	b := c.out
	if b != nil && len(b.data)-b.w < n {
		if c.blocked || !c.write() {
			return nil
		}
		b = c.out
	}
	if b == nil {
		b = c.iface.txPool.get()
		c.out = b
	}
	return b.data[b.r:b.w]
}

// queued accounts for n bytes appended to what room returned.
func (c *conn) queued(n int) {
	c.out.w += n
	c.accepted += uint64(n)
}

// unqueue removes the last n bytes of output.
func (c *conn) unqueue(n int) {
	c.out.w -= n
	c.accepted -= uint64(n)
	if c.out.r == c.out.w {
		c.iface.txPool.put(c.out)
		c.out = nil
	}
}

// acceptsMore reports whether the connection would accept an operation of any size now.
func (c *conn) acceptsMore() bool {
	if c.state != stateConnected || c.zc.left != 0 {
		return false
	}
	b := c.out
	return !c.blocked || b == nil || len(b.data)-b.w >= c.iface.maxFrame
}

// Bounds of the output in one round, so that a peer which reads as fast as this side writes does
// not keep the scheduler or other connections waiting.
const (
	maxSend  = 1 << 20 // bytes in one system call
	maxSends = 4       // system calls in a row
)

// write gives the kernel as much output as it takes and reports whether all output was written.
// write calls no callback of the application: Progress reports a broken connection.
func (c *conn) write() bool {
	if c.tls != nil && !c.tls.flush() {
		return false
	}
	for calls := 0; c.written != c.accepted; calls++ {
		if calls == maxSends {
			c.iface.svc.markDirty(c) // continued in the next round
			return false
		}
		n, want, errno := c.send()
		if errno != 0 {
			if errno == unix.EAGAIN {
				c.block()
			} else {
				c.lost("write", errno)
			}
			return false
		}
		c.sent(n)
		if n < want {
			c.block()
			return false
		}
	}
	if c.blocked || c.watched&event.Write != 0 {
		c.blocked = false
		c.watch(c.watched &^ event.Write)
	}
	return true
}

// send makes one system call to write output, and returns the numbers of bytes written and
// offered.
func (c *conn) send() (n, want int, errno unix.Errno) {
	b := c.out
	if c.zc.left == 0 {
		buf := b.data[b.r:b.w]
		if c.tls != nil {
			return c.tls.send(buf)
		}
		n, errno = sys.Send(int(c.fd), buf, 0)
		return n, len(buf), errno
	}
	v := &c.iface.svc.vec
	if b != nil {
		v.Add(b.data[b.r:b.w])
	}
	z := &c.zc
	offset := z.offset
	for i := z.index; i < len(z.iov) && v.Bytes() < maxSend; i++ {
		data := z.iov[i].Data[offset:]
		v.Add(data[:min(len(data), maxSend-v.Bytes())])
		offset = 0
	}
	want = v.Bytes()
	n, errno = sys.SendVec(int(c.fd), v, 0)
	v.Reset()
	return n, want, errno
}

// sent removes n written bytes from the output.
func (c *conn) sent(n int) {
	c.written += uint64(n)
	c.iface.svc.watch.sent(c)
	if b := c.out; b != nil {
		k := min(n, b.w-b.r)
		b.r += k
		n -= k
		if b.r == b.w {
			c.iface.txPool.put(b)
			c.out = nil
		}
	}
	if n > 0 {
		c.zc.advance(n)
	}
}

// block marks the connection as blocked until the event set reports that the kernel takes output.
func (c *conn) block() {
	c.blocked = true
	if err := c.watch(c.watched | event.Write); err != nil {
		c.lost("write", err)
	}
}

// queue is a doubly linked list of connections. The function links returns a connection's links in
// this queue.
type queue struct {
	head, tail *conn
	n          int
	links      func(*conn) *links
	past       *conn // connections up to this one are skipped by guestList.look; nil: none
}

// links has a connection's neighbors in a queue.
type links struct{ prev, next *conn }

func (q *queue) append(c *conn) {
	l := q.links(c)
	l.prev, l.next = q.tail, nil
	if q.tail != nil {
		q.links(q.tail).next = c
	} else {
		q.head = c
	}
	q.tail = c
	q.n++
}

// after returns the connection behind c, the first one if c is nil.
func (q *queue) after(c *conn) *conn {
	if c == nil {
		return q.head
	}
	return q.links(c).next
}

func (q *queue) remove(c *conn) {
	l := q.links(c)
	if q.past == c {
		q.past = l.prev
	}
	if l.prev != nil {
		q.links(l.prev).next = l.next
	} else {
		q.head = l.next
	}
	if l.next != nil {
		q.links(l.next).prev = l.prev
	} else {
		q.tail = l.prev
	}
	*l = links{}
	q.n--
}
