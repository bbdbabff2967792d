//go:build linux

package tcp

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Check implements uct.Endpoint. On a connection it sends a keepalive frame if
// nothing else is on its way: the answer, or its absence, is the kernel's.
func (ep *endpoint) Check(comp *uct.Completion) error {
	if ep.err != nil {
		return ep.err
	}
	c := ep.conn
	if c == nil || c.state != stateConnected {
		if comp == nil {
			return nil
		}
		o := ep.iface.svc.ops.get()
		o.comp = comp
		ep.checks.push(o)
		return ucs.InProgress
	}
	if c.written != c.accepted || c.owed != 0 {
		return nil // what is on its way does the same
	}
	b := c.room(hdrLen)
	c.queued(len(appendFrameHeader(b, idKeepalive, 0)) - len(b))
	c.probe = true
	c.visit.told += hdrLen
	c.write()
	c.iface.svc.markDirty(c)
	return ep.err
}
