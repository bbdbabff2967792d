//go:build linux

package tcp

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// endpoint is what the application sends through. It sends on a conn, which is one socket. It
// belongs to the worker's goroutine.
type endpoint struct {
	uct.NoAM
	uct.NoRMA
	uct.BasicNetworkEndpoint

	iface *iface
	conn  *conn // nil between attempts to connect; closed after a failure
	stale *conn // the peer's unused connection, until conn is established (connmanager.go)

	peer     sockaddr
	sn       uint64       // connection sequence number, or the peer's endpoint key
	numbers  *numbers     // endpoint numbers toward peer
	key      uint64       // this endpoint's own key
	toEP     bool         // connected by key (expose.go)
	attempts int          // attempts to connect so far
	timer    *event.Timer // starts the next attempt to connect

	forPeer     bool // made on behalf of a peer, not for the application
	answersOnly bool // it sends only on the one connection that the peer made (connect.go)

	pending uct.PendingQueue
	checks  opQueue // Check calls that wait for the connection
	user    any

	err    error // why the endpoint failed or is closed; every operation returns it
	closed bool
}

var _ interface {
	uct.Endpoint
	uct.RMA
	uct.Paired
	uct.NetworkEndpoint
} = (*endpoint)(nil)

// Source implements uct.NetworkEndpoint.
func (e *endpoint) Source() *uct.Source {
	if e.conn == nil || e.err != nil || e.closed {
		return nil
	}
	return &e.conn.src
}

// NewEndpoint implements uct.Iface.
func (i *iface) NewEndpoint(p uct.EndpointParams) (uct.Endpoint, error) {
	if p.PathIndex != 0 {
		return nil, fmt.Errorf("tcp: path %d of 1: %w", p.PathIndex, ucs.ErrInvalidParam)
	}
	if i.closed {
		return nil, fmt.Errorf("tcp: iface is closed: %w", ucs.ErrInvalidParam)
	}
	if i.cannotBind != nil {
		return nil, i.cannotBind
	}
	ep := &endpoint{iface: i, user: p.UserData, forPeer: p.ForPeer}
	if p.DeviceAddr == nil && p.IfaceAddr == nil {
		if !i.attr.Flags.Has(uct.IfaceConnectToEP) {
			return nil, fmt.Errorf("%s: endpoint without address: %w", i.attr.Resource.Transport, ucs.ErrUnsupported)
		}
		at, err := i.at(p.LocalAddr)
		if err != nil {
			return nil, err
		}
		ep.iface = at
		at.addKey(ep)
		at.addEndpoint(ep)
		return ep, nil
	}
	d, peer, err := parsePeer(p.DeviceAddr, p.IfaceAddr)
	if err != nil {
		return nil, err
	}
	if d.v6 != i.addr.v6 {
		if !i.second.IsValid() {
			return nil, i.errOtherFamily(peer)
		}
		second, err := i.at(i.second)
		if err != nil {
			return nil, err
		}
		return second.NewEndpoint(p)
	}
	if p.Over != nil {
		return i.returnOver(ep, p.Over, peer)
	}
	ep.numbers = i.match.numbers.hold(peer)
	ep.peer, ep.sn = peer, i.takeNumber(ep.numbers)
	i.addEndpoint(ep)
	if !ep.meet() {
		ep.connect()
	}
	return ep, nil
}

// ready returns the endpoint's connection if an operation may be started now, and the error of
// notReady otherwise. Control frames that are owed to the peer are queued first.
func (ep *endpoint) ready() (*conn, error) {
	c := ep.conn
	if c == nil || c.state != stateConnected || c.zc.left != 0 || ep.err != nil || ep.pending.Blocks() {
		return nil, ep.notReady()
	}
	if c.owed != 0 {
		c.pay() // control frames owed to the peer go first
		if c.state != stateConnected {
			return nil, ep.notReady() // making room for them found the connection broken
		}
	}
	return c, nil
}

// notReady returns the error of an operation that cannot be started now: the endpoint's error,
// or ucs.ErrNoResource.
//
//go:noinline
func (ep *endpoint) notReady() error {
	if ep.err != nil {
		return ep.err
	}
	return ucs.ErrNoResource
}

// Claim implements uct.NetworkEndpoint.
func (ep *endpoint) Claim() {
	ep.forPeer = false
	if c := ep.conn; c != nil {
		ep.iface.svc.leave(c)
	}
}

// PendingAdd implements uct.Endpoint.
func (ep *endpoint) PendingAdd(p *uct.Pending) error {
	if ep.err != nil {
		return ep.err
	}
	// A blocked connection may have room in its buffer, but SendNow cannot use that room.
	if c := ep.conn; ep.pending.Empty() && c != nil && !c.blocked && c.acceptsMore() {
		return ucs.ErrBusy
	}
	ep.pending.Add(p)
	return nil
}

// PendingPurge implements uct.Endpoint.
func (ep *endpoint) PendingPurge(fn func(*uct.Pending)) { ep.pending.Purge(fn) }

// Fence implements uct.Endpoint. It has nothing to do, because the stream is ordered.
func (ep *endpoint) Fence() error { return ep.err }

// Close implements uct.Endpoint. A connection on which the peer sends stays open for receiving. A
// FIN event tells the peer that this side will send nothing more.
func (ep *endpoint) Close() {
	if ep.closed {
		return
	}
	ep.closed = true
	reason := ep.err
	if reason == nil {
		ep.err = errClosed
		reason = ucs.ErrCanceled
	}
	c := ep.conn
	if c != nil && c.state != stateClosed && ep.canHalfClose() {
		ep.halfClose()
	} else {
		if c != nil && c.state == stateConnected && !c.blocked {
			c.write() // a last attempt to write the collected output
		}
		ep.disconnect()
	}
	ep.iface.removeEndpoint(ep)
	ep.endOps(reason)
	ep.conn = nil
}

var errClosed = fmt.Errorf("tcp: endpoint is closed: %w", ucs.ErrCanceled)

// canHalfClose reports whether the connection can continue without the endpoint: the peer sends
// on it, and no zero-copy message of the endpoint is partly written.
func (ep *endpoint) canHalfClose() bool {
	c := ep.conn
	return c.rx && !c.toEP && !c.ended && c.zc.left == 0 && c.isUp()
}

// isUp reports whether a connection is established, at least for the peer. A connection that
// the peer made and an endpoint took over is up even before the peer has acknowledged that.
func (c *conn) isUp() bool {
	return c.state == stateConnected || c.state == stateWaitingAck && !c.outgoing
}

// halfClose detaches the connection from the endpoint. From then on this side only receives on it.
func (ep *endpoint) halfClose() {
	c := ep.conn
	if ep.stale != nil {
		ep.stale.close()
		ep.stale = nil
	}
	c.iface.unmatchEndpoint(ep)
	c.ep = nil
	if c.guestEntry.guest == nil {
		c.iface.svc.enroll(c)
	}
	// The answer to this side's request may still come; it is then ignored.
	c.state = stateConnected
	c.iface.matchConn(c, ep.answersOnly)
	c.owe(owedFin)
	if c.pay() && !c.blocked {
		c.write()
	}
}
