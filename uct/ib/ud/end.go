//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/ucs"
)

// stop makes the endpoint refuse all further operations with err.
func (e *endpoint) stop(err error) {
	e.failed = err
	e.iface.Waiting.Leave(&e.pending)
}

// fail is called when the state machine has failed the connection and given back its slots. It
// queues err for the application.
func (e *endpoint) fail(err error) {
	if e.failed != nil {
		return
	}
	e.stop(err)
	e.iface.Failures.Add(&e.iface.Reporter, e.self, err)
}

// Over implements kit.Failing. Messages that the peer has sent are delivered before the failure.
func (e *endpoint) Over(error) (userData any, report bool) {
	e.conn.deliverAllLate()
	e.conn.forget()
	e.conn.Source.Gone()
	return e.userData, !e.closed
}

// cancel cancels the operations in flight, without reporting a failure. Messages that were copied
// still arrive, and the peer's messages are acknowledged until the endpoint is closed, so that the
// peer does not notice (uct_ud_ep_flush in src/uct/ib/ud/base/ud_ep.c).
func (e *endpoint) cancel() {
	if e.failed == nil {
		e.stop(ucs.ErrCanceled)
		e.takeBack()
	}
}

// Close implements uct.Endpoint. Messages that were copied still arrive, if the peer is alive and
// the interface stays open for long enough.
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

// takeBack ends the use of the caller's memory by messages in flight, by copying the memory into
// their slots. Their completions get ucs.ErrCanceled when the device is done.
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
		// The device may still read the caller's memory for earlier requests.
		i.retired.add(retiredItem{seq: h.seq, slot: -1, comp: h.comp, err: ucs.ErrCanceled, conn: e.conn})
		h.comp = nil
	}
}
