package sim

import "github.com/ucx-go/ucx/uct"

// packet is an active message in flight.
type packet struct {
	from     *endpoint
	id       uct.AMID
	buf      []byte    // the message; for a zero-copy message, the header
	iov      []uct.IOV // rest of a zero-copy message, in the sender's memory
	cut      int       // number of bytes to remove at the end
	op       *op       // operation that waits for the delivery
	due      uint64    // round of the receiver for the delivery
	size     int       // bytes on the way
	after    uint64    // number of accesses of the endpoint that take effect before, see timed.ended
	canceled bool
	last     bool // marker without a message: from sends no more
	desc     uct.AMDesc
	tap      tapID
}

// packet returns a packet for a message of size bytes.
func (n *Network) packet(size int) *packet {
	n.mu.Lock()
	defer n.mu.Unlock()
	var p *packet
	if k := len(n.free); k > 0 {
		p, n.free = n.free[k-1], n.free[:k-1]
	} else {
		p = new(packet)
	}
	if cap(p.buf) < size {
		p.buf = make([]byte, size)
	}
	*p = packet{buf: p.buf[:size], iov: p.iov}
	return p
}

// recycle returns a packet to the free list.
func (n *Network) recycle(p *packet) {
	n.mu.Lock()
	n.recycleLocked(p)
	n.mu.Unlock()
}

// recycleLocked is recycle for callers that hold n.mu.
func (n *Network) recycleLocked(p *packet) {
	p.forget()
	*p = packet{buf: p.buf, iov: p.iov}
	n.free = append(n.free, p)
}

// forget drops the references to the sender's memory.
func (p *packet) forget() {
	clear(p.iov)
	p.iov = p.iov[:0]
}

// gather copies the rest of a zero-copy message into buf and applies the cut.
func (p *packet) gather() {
	for i := range p.iov {
		p.buf = append(p.buf, p.iov[i].Data...)
	}
	p.forget()
	p.buf = p.buf[:max(0, len(p.buf)-p.cut)]
}
