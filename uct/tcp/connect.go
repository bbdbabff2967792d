//go:build linux

package tcp

import (
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// takeOver gives an endpoint the connection that its peer has opened already
// (uct_tcp_ep_connect), and sends a request, so that the peer also receives on it.
func (i *iface) takeOver(ep *endpoint, c *conn) {
	i.unmatch(c)
	ep.conn, c.ep = c, ep
	c.taken(ep)
	i.matchEndpoint(ep)
	c.state = stateWaitingAck
	c.owe(owedReq)
	if c.pay() && !c.blocked {
		c.write()
	}
}

// meet looks for a connection that the peer has already opened with the endpoint's number. If
// the connection's claim is verified, the endpoint takes it over and meet returns true.
// Otherwise the endpoint enters the match table and has to connect.
func (ep *endpoint) meet() bool {
	i := ep.iface
	if m := i.match.entries[matchKey{ep.peer, ep.sn}]; m.conn != nil && ep.peer != i.addr {
		if m.conn.claimVerified() {
			i.takeOver(ep, m.conn)
			return true
		}
		i.checkOwner(m.conn)
	}
	i.matchEndpoint(ep)
	return false
}

// checkOwner handles a connection in the match table whose claim is no longer verified. It closes
// the connection if the peer has closed it, and otherwise moves it to the connections kept aside
// (origin.go).
func (i *iface) checkOwner(c *conn) {
	if c.dead() {
		c.close()
	} else {
		i.keepAside(c)
	}
}

// renumber handles an endpoint whose connection was closed unanswered: the process at the peer's
// listener already has a connection with the endpoint's number, but this process has no verified
// connection with that number. If the kernel confirms a connection kept aside (confirmed), the
// endpoint takes it over. Otherwise, if that connection may be one that is kept aside or used by a
// returning endpoint (connect.go), the endpoint gets a number that none of these has. The peer will
// accept that number, and each side then sends on a connection of its own. renumber reports whether
// the endpoint has taken over a connection; if not, the caller has to retry.
func (ep *endpoint) renumber() (connected bool) {
	i := ep.iface
	if ep.err != nil || ep.toEP {
		return false
	}
	c, maybe := ep.confirmed()
	switch {
	case c != nil:
		i.takeOver(ep, c)
		return true
	case !maybe && !i.returns(ep.peer, ep.sn):
		return false
	}
	i.unmatchEndpoint(ep)
	for i.spokenOf(ep) {
		ep.sn = i.takeNumber(ep.numbers)
	}
	return ep.meet()
}

// connect makes an attempt to reach the peer.
func (ep *endpoint) connect() {
	ep.attempts++
	fd, err := ep.iface.socket()
	if err == unix.EMFILE && !ep.forPeer && ep.iface.svc.forOwn() {
		fd, err = ep.iface.socket()
	}
	if err != nil {
		ep.retry("socket", err)
		return
	}
	c := ep.iface.newConn(fd, stateConnecting)
	c.ep, c.peer, c.sn, c.toEP, c.outgoing = ep, ep.peer, ep.sn, ep.toEP, true
	c.from.addr = netip.AddrPortFrom(ep.iface.zoned(ep.peer.addrPort().Addr()), ep.peer.port)
	ep.conn = c
	if ep.forPeer {
		if err := c.enrollOwn(); err != nil {
			c.lost("socket", err)
			return
		}
	}
	if err := ep.iface.bindSource(fd); err != nil {
		c.lost("bind", err)
		return
	}
	switch err := unix.Connect(fd, ep.iface.unix(&ep.peer)); err {
	case nil:
		c.established()
	case unix.EINPROGRESS, unix.EINTR:
		if err := c.watch(event.Write); err != nil {
			c.lost("connect", err)
		}
	default:
		c.lost("connect", err)
	}
}

// connectDone is called when a non-blocking connect has succeeded or failed.
func (c *conn) connectDone() {
	if err := c.socketError(); err != nil {
		c.lost("connect", err)
		return
	}
	c.established()
}

// established is called when an outgoing connection is established. It sends the magic number and
// the connection request, after the handshake if the domain uses TLS.
func (c *conn) established() {
	if err := c.watch(event.Read); err != nil {
		c.lost("connect", err)
		return
	}
	if secure := c.iface.md.secure; secure != nil && c.tls == nil {
		secure(c) // handshake.done calls established again
		return
	}
	r := request{id: c.sn, from: c.iface.addr}
	if c.toEP {
		r.flags = reqToEP
	}
	b := c.room(maxControl)
	c.queued(len(appendRequest(appendMagic(b), r)) - len(b))
	c.state = stateWaitingAck
	c.write()
	if c.state == stateClosed {
		return
	}
	c.iface.svc.markDirty(c)
	if c.toEP {
		// The keys identify both endpoints: there is no answer to wait for.
		c.rx = true
		c.ep.connected()
	}
}

// connected makes an endpoint usable once its connection is established.
func (ep *endpoint) connected() {
	c := ep.conn
	c.state = stateConnected
	c.guestEntry.counted = c.accepted
	if ep.stale != nil {
		ep.stale.close()
		ep.stale = nil
	}
	if ep.timer != nil {
		ep.timer.Stop()
	}
	if !ep.pending.Empty() {
		c.iface.svc.markDirty(c)
	}
	ep.iface.svc.ops.finishAll(&ep.checks, nil)
}

// Delay between attempts: it starts at retryFirst and doubles up to retryMost.
const (
	retryFirst = time.Millisecond
	retryMost  = 100 * time.Millisecond
)

// retry schedules another attempt after a failed one if the failure is transient and attempts
// are left. Otherwise the endpoint fails.
func (ep *endpoint) retry(operation string, cause error) {
	if ep.err != nil {
		return
	}
	if ep.answersOnly || ep.attempts >= ep.iface.opts.maxRetries || !ep.transient(operation, cause) {
		ep.fail(operation, cause)
		return
	}
	// attempts may be 0: an endpoint that lost a connection that it had taken over has made no
	// attempt so far.
	delay := min(retryFirst<<min(max(ep.attempts-1, 0), 20), retryMost)
	var err error
	if ep.timer == nil {
		ep.timer, err = ep.iface.svc.w.Timers().After(delay, ep.again)
	} else {
		err = ep.timer.Reset(delay)
	}
	if err != nil {
		ep.fail(operation, cause)
	}
}

// transient reports whether an attempt that failed for this cause may be repeated. The peer may
// have dropped the connection because the peer's own connection is used (connmanager.go), or for lack of
// resources, and this process may lack resources. A connect that is refused at the first attempt,
// or is not answered, is not repeated (uct_tcp_cm_conn_start).
func (ep *endpoint) transient(operation string, cause error) bool {
	switch cause {
	case nil, unix.ECONNRESET, unix.EPIPE, unix.ECONNABORTED,
		unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.EAGAIN,
		unix.EADDRNOTAVAIL, unix.EADDRINUSE:
		return true
	case unix.ECONNREFUSED:
		return operation != "connect" || ep.attempts > 1
	}
	return false
}

// again is called when the endpoint's timer expires. It makes the next attempt to connect.
func (ep *endpoint) again() {
	if ep.err == nil && !ep.closed && (ep.conn == nil || ep.conn.state == stateClosed) {
		ep.connect()
	}
}

// socket makes a socket with the iface's options.
func (i *iface) socket() (int, error) {
	fd, err := unix.Socket(i.addr.family(), unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	if err := i.opts.apply(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// bindSource binds a socket to the iface's address, so that the connection leaves through the
// iface's device. The kernel chooses the port when the socket connects, which allows as many
// connections as there are pairs of ports.
func (i *iface) bindSource(fd int) error {
	if i.opts.bindSource == config.No {
		return nil
	}
	local := i.addr.withPort(0)
	unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	if err := unix.Bind(fd, i.unix(&local)); err != nil && i.opts.bindSource == config.Yes {
		return err
	}
	return nil
}

// Endpoints that only answer the peer of a connection, on that connection. The listener that the
// peer claims may belong to another process (origin.go). So such an endpoint is not in the match
// table under that listener, and never connects to it.

// CanSendOver implements uct.NetworkIface.
func (i *iface) CanSendOver(over *uct.Source, p uct.ReachableParams) bool {
	c, _ := over.Owner.(*conn)
	_, peer, err := parsePeer(p.DeviceAddr, p.IfaceAddr)
	return c != nil && err == nil && (c.iface == i || c.iface.mainIface == i) && c.iface.canReturn(c, peer)
}

// canReturn reports whether an answering endpoint can send on the connection c of a peer: no
// endpoint of this side sends on it, and no endpoint has its number. The connection might turn out
// to belong to an endpoint with its number.
func (i *iface) canReturn(c *conn, peer sockaddr) bool {
	return c.iface == i && c.ep == nil && c.matched && !c.outgoing && c.state == stateConnected && c.rx &&
		i.md.tls == nil && c.peer == peer && peer != i.addr && i.match.entries[matchKey{peer, c.sn}].ep == nil
}

// returnOver makes ep an endpoint that sends on a connection of the peer. The endpoint gets the
// connection's number. New endpoints do not get that number while the endpoint exists.
func (i *iface) returnOver(ep *endpoint, over *uct.Source, peer sockaddr) (uct.Endpoint, error) {
	c, _ := over.Owner.(*conn)
	if c == nil || !i.canReturn(c, peer) {
		return nil, fmt.Errorf("tcp: the connection cannot carry replies to %v: %w", peer, ucs.ErrUnreachable)
	}
	ep.numbers = i.match.numbers.hold(peer)
	ep.peer, ep.sn, ep.answersOnly = peer, c.sn, true
	if i.match.returning == nil {
		i.match.returning = make(map[matchKey]int)
	}
	i.match.returning[matchKey{peer, c.sn}]++
	i.addEndpoint(ep)
	i.takeOver(ep, c)
	return ep, nil
}
