package self

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// maxBacklog bounds the messages of an iface that wait for progress.
const maxBacklog = 64

// message is a message in a buffer.
type message struct {
	from     *endpoint
	buf      []byte // of segSize bytes
	n        int    // bytes of it that are the message
	id       uct.AMID
	deferred bool // buf is the backlog's, not that of the current depth
}

// backlog is a bounded FIFO of messages with the free buffers for them. The
// zero value is empty; buffers are made on demand and reused.
type backlog struct {
	ring  [maxBacklog]message
	first int // index of the oldest
	count int
	free  [][]byte
}

func (b *backlog) len() int { return b.count }

func (b *backlog) full() bool { return b.count == maxBacklog }

// buffer returns a buffer of size bytes for a message to be pushed.
func (b *backlog) buffer(size int) []byte {
	if n := len(b.free); n > 0 {
		buf := b.free[n-1]
		b.free = b.free[:n-1]
		return buf
	}
	return make([]byte, size)
}

// release gives a buffer back.
func (b *backlog) release(buf []byte) { b.free = append(b.free, buf) }

// push appends m. The backlog must not be full.
func (b *backlog) push(m message) {
	b.ring[(b.first+b.count)%maxBacklog] = m
	b.count++
}

// pop removes the oldest message. There must be one.
func (b *backlog) pop() message {
	m := b.ring[b.first]
	b.ring[b.first] = message{}
	b.first = (b.first + 1) % maxBacklog
	b.count--
	return m
}

// Progress implements uct.Progressor: it delivers what is in the backlog now and
// lets pending requests try again. What that adds to the backlog is for the next
// round. Inside a handler it does nothing.
func (i *iface) Progress() int {
	if i.idle() || i.depth > 0 {
		return 0
	}
	n := i.backlog.len()
	for k := range n {
		m := i.backlog.pop()
		i.receive(m)
		if i.closed {
			return k + 1
		}
		i.backlog.release(m.buf)
		if e := m.from; e.closed && e.queued == 0 {
			e.src.Gone()
		}
	}
	n += i.waiting.Dispatch() + i.failures.Report()
	i.updateInline()
	return n
}

// idle reports whether there is nothing to do for Progress.
func (i *iface) idle() bool {
	return i.backlog.count == 0 && i.waiting.Empty() && i.failures.Empty()
}

// updateInline opens the fast path if nothing stands against it.
func (i *iface) updateInline() {
	i.inline = 0
	if i.backlog.count == 0 && i.waiting.Empty() && !i.waiting.Running() && !i.closed {
		for i.inline < maxDepth && i.bufs[i.inline] != nil {
			i.inline++
		}
	}
}

// receive delivers a message that did not take the fast path.
func (i *iface) receive(m message) {
	if m.deferred {
		m.from.queued--
	}
	if m.from.failure != nil {
		return
	}
	if err := i.deliver(&m.from.src, m.id, m.buf[:m.n]); err != nil {
		m.from.refused(err)
	}
}

// deliver runs the handler of a message. It must stay inlinable.
func (i *iface) deliver(src *uct.Source, id uct.AMID, data []byte) error {
	i.depth++
	err := i.handlers.Deliver(src, id, data, nil)
	i.depth--
	return err
}

// refused is told the result of a handler that is not nil.
//
//go:noinline
func (e *endpoint) refused(err error) {
	if err != ucs.InProgress {
		e.DropSource(err)
	}
}
