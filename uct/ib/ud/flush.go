//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Messages are delivered in order, and acknowledged when the peer's library has received them.

// Fence implements uct.Endpoint.
func (e *endpoint) Fence() error { return e.failed }

// Flush implements uct.Endpoint. It waits until the peer has acknowledged everything; a
// remote flush is the same.
func (e *endpoint) Flush(flags uct.FlushFlags, c *uct.Completion) error {
	i := e.iface
	switch {
	case flags&uct.FlushCancel != 0:
		e.cancel()
		if e.conn.waits == 0 {
			return nil
		}
		i.retired.add(retiredItem{seq: i.sq.done, slot: -1, comp: c, conn: e.conn})
		return ucs.InProgress
	case e.failed != nil:
		return e.failed
	case e.pending.Blocks():
		return ucs.ErrNoResource
	}
	slot := i.slots.takeMark()
	h := i.slots.of(slot)
	h.comp, h.seq = c, i.sq.done
	if !e.conn.flow.Flush(slot) {
		i.alarm.due = true
		return ucs.InProgress
	}
	if e.conn.waits > 0 { // acknowledged, but the device may still read messages
		i.retired.add(retiredItem{seq: i.sq.done, slot: slot, conn: e.conn})
		return ucs.InProgress
	}
	h.comp = nil
	i.slots.put(slot)
	return nil
}

// Check implements uct.Endpoint. Packets in flight detect a dead peer; if there are none, a keepalive
// is sent.
func (e *endpoint) Check(*uct.Completion) error {
	if e.failed != nil {
		return e.failed
	}
	e.conn.flow.Check()
	return nil
}
