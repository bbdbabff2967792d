package sim

import "github.com/ucx-go/ucx/uct"

// packet is an active message on its way.
type packet struct {
	from     *endpoint
	id       uct.AMID
	buf      []byte    // the message; of zero-copy ones, the header
	iov      []uct.IOV // rest of a zero-copy message, in the sender's memory
	cut      int       // bytes to lose at the end
	op       *op       // to be told of the delivery
	due      uint64    // round of the receiver
	canceled bool
	last     bool // no message: from sends no more
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

// recycle takes a packet back.
func (n *Network) recycle(p *packet) {
	n.mu.Lock()
	n.recycleLocked(p)
	n.mu.Unlock()
}

// recycleLocked is recycle with n.mu held.
func (n *Network) recycleLocked(p *packet) {
	p.forget()
	*p = packet{buf: p.buf, iov: p.iov}
	n.free = append(n.free, p)
}

// forget lets go of the sender's memory.
func (p *packet) forget() {
	clear(p.iov)
	p.iov = p.iov[:0]
}

// gather completes a zero-copy message and applies the cut.
func (p *packet) gather() {
	for i := range p.iov {
		p.buf = append(p.buf, p.iov[i].Data...)
	}
	p.forget()
	p.buf = p.buf[:max(0, len(p.buf)-p.cut)]
}
