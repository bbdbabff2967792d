// Package bufpool keeps buffers for messages that nobody has received yet.
package bufpool

import "math/bits"

// Pool keeps idle buffers by power-of-two size. It belongs to one
// goroutine at a time. It keeps no more than is in use, or little. The zero value is
// empty.
type Pool struct {
	free [classes][][]byte
	used int // bytes handed out
	idle int // bytes kept
}

const (
	minBits      = 6  // 64 bytes
	classes      = 21 // up to 64 MiB; larger ones are not kept
	maxIdleBytes = 64 << 20
	minIdleBytes = 4 << 20 // kept whatever is in use
)

// class returns the size class of n bytes; classes or more means
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

// Put takes back a buffer of Get.
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

// drop leaves one of the largest buffers to the garbage collector: after a peak less
// is in use with every buffer that comes back, and less is kept.
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

// Used is the memory handed out, in bytes.
func (p *Pool) Used() int { return p.used }
