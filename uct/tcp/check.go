//go:build linux

package tcp

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Check implements uct.Endpoint. On an established connection Check sends a keepalive frame,
// unless other output waits to be written. The peer's kernel acknowledges the frame; the endpoint
// fails if no acknowledgement arrives. Before the connection is established, comp waits for
// the connection.
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
		return nil // the output that is waiting does the same
	}
	b := c.room(hdrLen)
	c.queued(len(appendFrameHeader(b, idKeepalive, 0)) - len(b))
	c.probe = true
	c.visit.told += hdrLen
	c.write()
	c.iface.svc.markDirty(c)
	return ep.err
}
