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

// Failure of connections and endpoints. Code that finds a connection broken calls lost, and
// code that finds a violation by the peer calls refuse. Both end the connection; its endpoint
// fails, or, after lost, connects again if it was not connected yet.

// lost is called when the connection broke. cause is nil at the end of the stream.
func (c *conn) lost(operation string, cause error) {
	ep, state := c.ep, c.state
	switch {
	case ep == nil:
		// No endpoint sends on the connection. The peer may connect again.
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

// refuse drops a connection whose peer did something that a peer must not do. If the connection
// has an endpoint, the endpoint fails with cause.
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

// EndSource implements uct.SourceEnder. The peer receives the end of the stream after all that
// was sent before. It does nothing to a connection that has an endpoint, is not connected or is
// blocked.
func (c *conn) EndSource() {
	if c.ep == nil && c.state == stateConnected && !c.blocked {
		unix.Shutdown(int(c.fd), unix.SHUT_WR)
	}
}

// fail ends an endpoint. The next Progress, or the one that is running, completes the
// endpoint's operations with the error and calls OnError.
func (ep *endpoint) fail(operation string, cause error) {
	if ep.err != nil { // failed or closed already: nothing to report
		ep.disconnect()
		return
	}
	ep.err = ep.newError(operation, cause)
	ep.disconnect()
	ep.iface.svc.failures.Add(&ep.iface.reporter, ep, ep.err)
}

// disconnect closes the connections of an endpoint and takes it out of the match table.
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

// endOps completes all operations of the endpoint with err.
func (ep *endpoint) endOps(err error) {
	if ep.conn != nil {
		ep.conn.endOps(err)
	}
	ep.iface.svc.ops.finishAll(&ep.checks, err)
}
