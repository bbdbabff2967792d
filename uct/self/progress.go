package self

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Progress implements uct.Progressor. It delivers the messages in the backlog and retries
// pending requests. Messages that these add to the backlog are delivered in the next round.
// Inside a handler Progress does nothing.
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

// idle reports whether Progress has nothing to do.
func (i *iface) idle() bool {
	return i.backlog.count == 0 && i.waiting.Empty() && i.failures.Empty()
}

// updateInline enables the fast path if no message and no request is waiting, and disables it
// otherwise.
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

// deliver runs the handler of a message.
func (i *iface) deliver(src *uct.Source, id uct.AMID, data []byte) error {
	i.depth++
	err := i.handlers.Deliver(src, id, data, nil)
	i.depth--
	return err
}

// refused handles a non-nil result of a handler: any error other than ucs.InProgress drops the
// endpoint.
//
//go:noinline
func (e *endpoint) refused(err error) {
	if err != ucs.InProgress {
		e.DropSource(err)
	}
}
