package self

import (
	"github.com/ucx-go/ucx/uct"
)

// maxBacklog bounds the messages of an iface that wait for progress.
const maxBacklog = 64

// message is a message in a buffer.
type message struct {
	from     *endpoint
	buf      []byte // segSize bytes
	n        int    // length of the message in buf
	id       uct.AMID
	deferred bool // buf belongs to the backlog, not to the current handler depth
}

// backlog is a bounded FIFO of messages, with a free list of buffers. The zero value is empty;
// buffers are allocated on demand and reused.
type backlog struct {
	ring  [maxBacklog]message
	first int // index of the oldest message
	count int
	free  [][]byte
}

func (b *backlog) len() int { return b.count }

func (b *backlog) full() bool { return b.count == maxBacklog }

// buffer returns a buffer of size bytes for a message that will be pushed.
func (b *backlog) buffer(size int) []byte {
	if n := len(b.free); n > 0 {
		buf := b.free[n-1]
		b.free = b.free[:n-1]
		return buf
	}
	return make([]byte, size)
}

// release returns a buffer to the free list.
func (b *backlog) release(buf []byte) { b.free = append(b.free, buf) }

// push appends m. The backlog must not be full.
func (b *backlog) push(m message) {
	b.ring[(b.first+b.count)%maxBacklog] = m
	b.count++
}

// pop removes the oldest message. The backlog must not be empty.
func (b *backlog) pop() message {
	m := b.ring[b.first]
	b.ring[b.first] = message{}
	b.first = (b.first + 1) % maxBacklog
	b.count--
	return m
}
