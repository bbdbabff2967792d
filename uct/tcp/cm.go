//go:build linux

package tcp

import (
	"fmt"
)

// Connection management (src/uct/tcp/tcp_cm.c).
//
// A connects and sends REQ(n). B answers ACK and receives on that connection. When B makes its
// n-th endpoint toward A, that endpoint takes the connection over, sends REQ and gets ACK: both
// sides now send on one socket.
//
// When both sides connect at once, each side receives the other's REQ(n) on an accepted socket
// while its own endpoint n is not connected yet. The socket that was opened by the side with
// the smaller listener address survives. The larger side closes its own socket, adopts the
// accepted socket and answers ACK+REQ. The smaller side answers nothing and keeps its accepted
// socket open, unread, until its own connection is established, because the larger side would
// otherwise see the accepted socket break and connect again.
//
// The rules that go by listener addresses apply only to connections whose claimed listener is
// verified (claim.go).

// handleCM handles a connection manager packet.
func (c *conn) handleCM(b []byte) {
	if len(b) < eventLen {
		c.refuse(fmt.Errorf("connection packet of %d bytes: %w", len(b), errProtocol))
		return
	}
	ev := cmEvent(le.Uint32(b))
	if ev == eventReq {
		r, err := parseRequest(b)
		if err == nil && r.from.v6 != c.iface.addr.v6 {
			err = fmt.Errorf("request of another address family: %w", errProtocol)
		}
		if err != nil {
			c.refuse(err)
			return
		}
		c.handleRequest(r)
		return
	}
	if len(b) != eventLen || c.state == stateAccepting || c.toEP {
		c.refuse(fmt.Errorf("connection event %d of %d bytes: %w", ev, len(b), errProtocol))
		return
	}
	switch ev {
	case eventAckReq:
		c.rx, c.finished = true, false
		fallthrough
	case eventAck:
		if c.state == stateWaitingAck {
			c.ep.connected()
		}
	case eventFin:
		if c.ep == nil {
			c.close()
			return
		}
		c.rx, c.finished = false, true
	default:
		c.refuse(fmt.Errorf("connection event %d: %w", ev, errProtocol))
	}
}

// handleRequest handles REQ.
func (c *conn) handleRequest(r request) {
	if c.state != stateAccepting {
		// The peer begins to send on an established connection.
		if r.from != c.peer || r.id != c.sn || r.flags&reqToEP != 0 || c.toEP {
			c.refuse(fmt.Errorf("second request, from %v with id %d: %w", r.from, r.id, errProtocol))
			return
		}
		c.rx, c.finished = true, false
		c.owe(owedAck)
		return
	}
	i := c.iface
	i.svc.endHalfOpen(c)
	c.peer, c.sn = r.from, r.id
	if r.flags&reqToEP != 0 {
		c.acceptKey()
		return
	}
	m := i.match.entries[matchKey{c.peer, c.sn}]
	aside := m != match{} && !c.fits()
	switch {
	case aside && c.dead():
		c.close() // it lost to this side's connection, and its owner cannot be determined any more
		return
	case aside:
	case m.ep != nil:
		c.simultaneous(m.ep)
		return
	case m.conn != nil && !m.conn.fits():
		i.checkOwner(m.conn)
	case m.conn != nil && m.conn.dead():
		// The peer lost that connection and learned so before this side.
		m.conn.close()
	case m.conn != nil:
		c.close()
		return
	}
	if c.sn == ^uint64(0) {
		c.close()
		return
	}
	i.matchConn(c, aside)
	c.state = stateConnected
	c.rx = true
	c.owe(owedAck)
}

// simultaneous decides between an accepted connection and the own connection of ep, the
// endpoint with the number of the accepted connection's request.
func (c *conn) simultaneous(ep *endpoint) {
	own := ep.conn
	if own != nil && own.state == stateConnected {
		own.rx = true
		c.close()
		return
	}
	if c.peer.compare(&c.iface.addr) < 0 {
		if own != nil {
			own.ep = nil
			own.close()
		}
		ep.conn, c.ep = c, ep
		c.taken(ep)
		c.rx = true
		c.owe(owedAckReq)
		ep.connected()
		return
	}
	if own != nil && own.state == stateWaitingAck {
		own.rx = true
	}
	if ep.stale != nil {
		ep.stale.close()
	}
	ep.stale = c
	c.state = stateStale
	c.watch(0)
}
