//go:build linux

package tcp

import (
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/ucs/event"
)

// takeOver gives an endpoint the connection its peer has opened already
// (uct_tcp_ep_connect). The peer is asked to receive on it.
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

// meet gives an endpoint that has a number the connection with it that the peer has
// opened already, if that can be believed. Without one, the endpoint has to connect.
func (ep *endpoint) meet() bool {
	i := ep.iface
	if m := i.match.entries[matchKey{ep.peer, ep.sn}]; m.conn != nil && ep.peer != i.addr {
		if m.conn.fits() {
			i.takeOver(ep, m.conn)
			return true
		}
		i.checkOwner(m.conn)
	}
	i.matchEndpoint(ep)
	return false
}

// checkOwner is told that the claim of a connection that had been believed does not fit.
func (i *iface) checkOwner(c *conn) {
	if c.dead() {
		c.close()
	} else {
		i.keepAside(c)
	}
}

// goAround is for an endpoint whose connection the owner of the listener has closed
// because another one with its number stands, as far as he knows, but none that can be
// believed is here. It takes a number of which nobody speaks, and he will hear it: each
// side then sends on a connection of its own. It reports whether that is over.
func (ep *endpoint) goAround() (connected bool) {
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

// connectDone is told that a connect ended, one way or the other.
func (c *conn) connectDone() {
	if err := c.socketError(); err != nil {
		c.lost("connect", err)
		return
	}
	c.established()
}

// established sends the first flight on a connection of ours.
func (c *conn) established() {
	if err := c.watch(event.Read); err != nil {
		c.lost("connect", err)
		return
	}
	if secure := c.iface.md.secure; secure != nil && c.tls == nil {
		secure(c) // and comes back
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
		// The keys say everything: there is no answer to wait for.
		c.rx = true
		c.ep.connected()
	}
}

// connected makes an endpoint usable whose connection stands.
func (ep *endpoint) connected() {
	c := ep.conn
	c.state = stateConnected
	c.visit.told = c.accepted
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

// Time between attempts: each waits twice as long as the one before.
const (
	retryFirst = time.Millisecond
	retryMost  = 100 * time.Millisecond
)

// retry arranges another attempt after one that failed, if there is hope.
func (ep *endpoint) retry(operation string, cause error) {
	if ep.err != nil {
		return
	}
	if ep.returns || ep.attempts >= ep.iface.opts.maxRetries || !ep.transient(operation, cause) {
		ep.fail(operation, cause)
		return
	}
	// An endpoint that lost a connection it had taken over has made none so far.
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

// transient reports whether an attempt that failed for this cause may be
// repeated. The peer may have dropped the connection because its own won (cm.go)
// or for lack of resources, and we may lack some. But a connect that is refused
// the first time, or not answered, is answer enough (uct_tcp_cm_conn_start).
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

// again is the next attempt.
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

// bindSource gives a socket the iface's address, so that the connection leaves
// through its device. The port is chosen when it connects, which allows as many
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
