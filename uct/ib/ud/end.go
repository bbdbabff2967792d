//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/ucs"
)

// stop has the endpoint accept nothing any more.
func (e *endpoint) stop(err error) {
	e.failed = err
	e.iface.Waiting.Leave(&e.pending)
}

// fail is told that the machine has given the connection up, and what was in flight back.
func (e *endpoint) fail(err error) {
	if e.failed != nil {
		return
	}
	e.stop(err)
	e.iface.Failures.Add(&e.iface.Reporter, e.self, err)
}

// Over implements kit.Failing. What the peer has sent comes before its end.
func (e *endpoint) Over(error) (userData any, tell bool) {
	e.conn.readUp()
	e.conn.forget()
	e.conn.Source.Gone()
	return e.userData, !e.closed
}

// cancel ends what is in flight, without anybody being told of a failure. What was copied still
// arrives, and the peer's messages are acknowledged until the endpoint is closed: to the peer
// nothing has happened (uct_ud_ep_flush in src/uct/ib/ud/base/ud_ep.c).
func (e *endpoint) cancel() {
	if e.failed == nil {
		e.stop(ucs.ErrCanceled)
		e.takeBack()
	}
}

// Close implements uct.Endpoint. What was copied still arrives, if the peer is there and
// the interface open for long enough.
func (e *endpoint) Close() {
	if e.closed {
		return
	}
	e.closed = true
	i, c := e.iface, e.conn
	i.endpoints--
	if e.failed == nil {
		e.stop(ucs.ErrCanceled)
	}
	e.takeBack()
	i.drain(func() bool { return c.waits == 0 })
	c.ep = nil
	c.flow.Close()
	i.watch()
}

// takeBack gives the caller back what was in flight of his memory, by copying it, and
// tells who waits, when the device is done.
func (e *endpoint) takeBack() {
	i := e.iface
	for slot := range e.conn.flow.Slots {
		h := i.slots.of(slot)
		if h.comp == nil && h.np == 0 {
			continue
		}
		if h.np > 0 {
			for k := range h.data {
				h.n += int32(copy(i.slots.buffer(slot)[h.n:], h.data[k]))
			}
			h.np = 0
			clear(h.data[:])
		}
		// The device may still read what it was given before.
		i.retired.add(retiredItem{seq: h.seq, slot: -1, comp: h.comp, err: ucs.ErrCanceled, conn: e.conn})
		h.comp = nil
	}
}
