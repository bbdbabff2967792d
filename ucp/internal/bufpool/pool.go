// Package bufpool recycles the buffers of messages that arrive before their receive is posted.
package bufpool

import "math/bits"

// Pool keeps idle buffers in classes of power-of-two sizes. It keeps at most as many idle bytes as
// are in use, or minIdleBytes if that is more, and never more than maxIdleBytes. One goroutine at
// a time may use a Pool. The zero value is empty.
type Pool struct {
	free [classes][][]byte
	used int // bytes in buffers that are in use
	idle int // bytes in buffers that are kept for reuse
}

const (
	minBits      = 6  // the smallest size is 64 bytes
	classes      = 21 // number of sizes, up to 64 MiB; larger buffers are not kept
	maxIdleBytes = 64 << 20
	minIdleBytes = 4 << 20 // idle bytes that are kept even if less is in use
)

// class returns the size class of n bytes. A result of classes or more means that the buffer is
// too large to be kept.
func class(n int) int {
	return max(bits.Len(uint(max(n, 1)-1)), minBits) - minBits
}

// Get returns a buffer of length 0 with room for n bytes.
func (p *Pool) Get(n int) []byte {
	c := class(n)
	if c >= classes {
		p.used += n
		return make([]byte, 0, n)
	}
	size := 1 << (c + minBits)
	p.used += size
	if l := p.free[c]; len(l) > 0 {
		b := l[len(l)-1]
		l[len(l)-1] = nil
		p.free[c] = l[:len(l)-1]
		p.idle -= size
		return b
	}
	return make([]byte, 0, size)
}

// Put takes back a buffer that Get returned.
func (p *Pool) Put(b []byte) {
	size := cap(b)
	p.used -= size
	c := class(size)
	if c >= classes || p.idle+size > maxIdleBytes {
		return
	}
	p.idle += size
	p.free[c] = append(p.free[c], b[:0])
	for p.idle > max(p.used, minIdleBytes) {
		p.drop()
	}
}

// drop releases one of the largest idle buffers to the garbage collector. After a peak, each buffer
// that is put back reduces the memory in use, and so the memory that the pool may keep.
func (p *Pool) drop() {
	for c := classes - 1; ; c-- {
		if n := len(p.free[c]); n > 0 {
			p.free[c][n-1] = nil
			p.free[c] = p.free[c][:n-1]
			if n == 1 {
				p.free[c] = nil
			}
			p.idle -= 1 << (c + minBits)
			return
		}
	}
}

// Used returns the memory of the buffers in use, in bytes.
func (p *Pool) Used() int { return p.used }
