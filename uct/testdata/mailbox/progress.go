package mailbox

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// Progress implements uct.Progressor.
func (i *iface) Progress() int {
	b := &i.box
	b.mu.Lock()
	n, news := b.count, b.news
	b.news = false
	b.mu.Unlock()
	for k := range n {
		m := &b.ring[b.first] // no sender touches it before next
		i.deliver(m)
		if b.closed { // by the handler
			return k + 1
		}
		i.next(m)
	}
	if news {
		i.look()
	}
	return n + i.waiting.Dispatch() + i.failures.Report()
}

// deliver runs the handler of a message, unless its connection was dropped.
func (i *iface) deliver(m *message) {
	c := m.from
	i.box.mu.Lock()
	broken := c.broken
	i.box.mu.Unlock()
	if broken {
		return
	}
	if err := i.handlers.Deliver(&c.source, m.id, m.buf[:m.n], nil); err != nil && err != ucs.InProgress {
		c.source.Drop(err)
	}
}

// next gives the place of a message back, and tells the senders that wait for it.
func (i *iface) next(m *message) {
	b := &i.box
	b.mu.Lock()
	m.from.queued--
	m.from = nil
	b.first = (b.first + 1) % places
	b.count--
	i.signaled = append(i.signaled[:0], b.waiting...)
	b.waiting = b.waiting[:0]
	b.mu.Unlock()
	for _, w := range i.signaled {
		w.signal()
	}
}

// look finds the endpoints that have failed and the connections that have ended.
func (i *iface) look() {
	for _, e := range i.endpoints {
		if e.failed == nil {
			e.conn.to.mu.Lock()
			broken := e.conn.broken
			e.conn.to.mu.Unlock()
			if broken {
				e.fail()
			}
		}
	}
	b := &i.box
	var over []*conn
	b.mu.Lock()
	for _, c := range b.conns {
		switch {
		case c.ended && c.queued == 0:
			over = append(over, c)
		case c.ended:
			b.news = true // look again
		}
	}
	for _, c := range over {
		b.forget(c)
	}
	b.mu.Unlock()
	for _, c := range over {
		c.source.Gone()
	}
}

// Arm implements uct.Progressor.
func (i *iface) Arm(events uct.EventFlags) error {
	b := &i.box
	if !i.failures.Empty() || !i.waiting.All(func(s kit.Sender) bool { return !s.(*endpoint).conn.to.hasRoom(b) }) {
		return ucs.ErrBusy
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.count > 0 || b.news {
		return ucs.ErrBusy
	}
	b.armed, b.messages = true, events&uct.EventRecv != 0
	return nil
}
