//go:build linux

package tcp

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/uct"
)

var (
	_ uct.SourceSharer = (*conn)(nil)
	_ uct.SourceEnder  = (*conn)(nil)
)

// How connections and endpoints come to a bad end: whoever finds a connection broken
// calls lost or refuse, which end what uses it, or try again.

// lost is called when the connection broke: cause is nil at the end of the
// stream.
func (c *conn) lost(operation string, cause error) {
	ep, state := c.ep, c.state
	switch {
	case ep == nil:
		// Nobody of ours uses it to send. The peer may come back.
		c.close()
	case state == stateConnecting || state == stateWaitingAck:
		unanswered := c.closedUnanswered(operation, cause)
		c.close()
		ep.conn = nil
		if unanswered && ep.goAround() {
			return
		}
		ep.retry(operation, cause)
	default:
		ep.fail(operation, cause)
	}
}

// refuse drops a connection whose peer did something it must not do.
func (c *conn) refuse(cause error) {
	if c.ep == nil {
		c.close()
		return
	}
	c.ep.fail("read", cause)
}

// DropSource implements uct.SourceOwner.
func (c *conn) DropSource(err error) {
	if c.state != stateClosed {
		c.refuse(fmt.Errorf("dropped by the receiver: %w", err))
	}
}

// SourceShared implements uct.SourceSharer.
func (c *conn) SourceShared() bool { return c.ep != nil }

// EndSource implements uct.SourceEnder. The peer finds the end of the stream behind what was
// sent before.
func (c *conn) EndSource() {
	if c.ep == nil && c.state == stateConnected && !c.blocked {
		unix.Shutdown(int(c.fd), unix.SHUT_WR)
	}
}

// fail ends an endpoint. Its operations are ended and its owner is told by the
// next Progress, or the one that is running.
func (ep *endpoint) fail(operation string, cause error) {
	if ep.err != nil { // cancelled: nobody wants to know
		ep.disconnect()
		return
	}
	ep.err = ep.newError(operation, cause)
	ep.disconnect()
	ep.iface.svc.failures.Add(&ep.iface.reporter, ep, ep.err)
}

// disconnect drops the sockets of an endpoint.
func (ep *endpoint) disconnect() {
	if ep.timer != nil {
		ep.timer.Stop()
	}
	if ep.stale != nil {
		ep.stale.close()
		ep.stale = nil
	}
	if ep.conn != nil {
		ep.conn.close()
	}
	ep.iface.unmatchEndpoint(ep)
}

// Over implements kit.Failing.
func (ep *endpoint) Over(err error) (userData any, tell bool) {
	if ep.closed {
		return nil, false
	}
	ep.endOps(err)
	return ep.user, !ep.closed
}

// endOps ends all operations with err.
func (ep *endpoint) endOps(err error) {
	if ep.conn != nil {
		ep.conn.endOps(err)
	}
	ep.iface.svc.ops.finishAll(&ep.checks, err)
}
