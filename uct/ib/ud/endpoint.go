//go:build linux

package ud

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/kit"
)

// endpoint is the application's side of a connection. It belongs to the goroutine of its
// interface's worker.
type endpoint struct {
	uct.BasicNetworkEndpoint
	iface    *iface
	conn     *conn
	userData any
	origin   uct.Origin // origin of the addresses that the endpoint is connected with
	pending  kit.Queue
	failed   error // why operations are refused; nil while they are accepted
	closed   bool
	self     kit.Failing // the endpoint that the application holds: this one or its wrapper
}

var _ interface {
	uct.Endpoint
	uct.Paired
	uct.NetworkEndpoint
	kit.Failing
	kit.Sender
} = (*endpoint)(nil)

// NewEndpoint implements uct.Iface.
func (i *iface) NewEndpoint(p uct.EndpointParams) (uct.Endpoint, error) {
	switch {
	case i.dead != nil:
		return nil, i.dead
	case p.Over != nil:
		return nil, fmt.Errorf("ud: an endpoint cannot send over a connection that the peer made: %w", ucs.ErrUnsupported)
	case p.PathIndex < 0 || p.PathIndex >= i.NumPaths():
		return nil, fmt.Errorf("ud: path %d of %d: %w", p.PathIndex, i.NumPaths(), ucs.ErrInvalidParam)
	case p.DeviceAddr == nil && p.IfaceAddr == nil:
		return i.newPair(p)
	}
	qpn, err := wire.ParseIfaceAddr(p.IfaceAddr)
	if err != nil {
		return nil, fmt.Errorf("ud: interface address %x: %w: %w", p.IfaceAddr[:min(len(p.IfaceAddr), 16)], err, ucs.ErrInvalidAddr)
	}
	a, err := ib.ParseAddress(p.DeviceAddr)
	if err != nil {
		return nil, err
	}
	if err := i.Admits(&a, p.Origin); err != nil {
		return nil, err
	}
	return i.connect(p, &a, qpn)
}

// connect makes an endpoint to a peer's interface.
func (i *iface) connect(p uct.EndpointParams, a *ib.Address, qpn uint32) (uct.Endpoint, error) {
	i.flow.Clock(int64(i.Worker.Now()))
	f, err := i.flow.Open(peerOf(a, qpn, uint8(p.PathIndex)))
	if err != nil {
		return nil, fmt.Errorf("ud: %w: %w", err, ucs.ErrNoResource)
	}
	c, made := f.User.(*conn) // made by the peer's CREQ
	if !made {
		if c, err = i.newConn(f, a, verbs.QPN(qpn)); err != nil {
			f.User = &conn{iface: i, flow: f} // port.Gone needs one
			f.Close()
			return nil, err
		}
	}
	e := &endpoint{iface: i, conn: c, userData: p.UserData, origin: p.Origin}
	c.ep, e.self = e, e
	i.endpoints++
	if !i.inside { // the CREQ is sent at once, as the peer may need long to answer
		i.flow.DispatchFirst()
	}
	i.watch()
	return e, nil
}

// newPair makes an endpoint without addresses, which ConnectToEP connects.
func (i *iface) newPair(p uct.EndpointParams) (uct.Endpoint, error) {
	f, err := i.flow.OpenPair()
	if err != nil {
		return nil, fmt.Errorf("ud: %w: %w", err, ucs.ErrNoResource)
	}
	c := &conn{iface: i, flow: f, reposted: i.sq.done}
	c.Owner = c
	f.User = c
	e := &endpoint{iface: i, conn: c, userData: p.UserData, origin: p.Origin}
	c.ep, e.self = e, e
	i.endpoints++
	return e, nil
}

// Address implements uct.Paired.
func (e *endpoint) Address() ([]byte, error) {
	if e.iface.qp == nil {
		return nil, e.iface.dead
	}
	return wire.AppendEPAddr(nil, uint32(e.iface.qp.QPN()), e.conn.flow.ID()), nil
}

// ConnectToEP implements uct.Paired.
func (e *endpoint) ConnectToEP(dev, iface, ep []byte) error {
	i, c := e.iface, e.conn
	if e.failed != nil {
		return e.failed
	}
	qpn, id, err := wire.ParseEPAddr(ep)
	if err != nil {
		return fmt.Errorf("ud: endpoint address %x: %w: %w", ep[:min(len(ep), 16)], err, ucs.ErrInvalidAddr)
	}
	if len(iface) != 0 {
		if q, err := wire.ParseIfaceAddr(iface); err != nil || q != qpn {
			return fmt.Errorf("ud: the endpoint %x does not belong to the interface %x: %w", ep, iface[:min(len(iface), 16)], ucs.ErrInvalidAddr)
		}
	}
	a, err := ib.ParseAddress(dev)
	if err != nil {
		return err
	}
	if err := i.Admits(&a, e.origin); err != nil {
		return err
	}
	if c.ah != nil {
		return errConnected
	}
	if err := c.resolvePath(&a, verbs.QPN(qpn), 0); err != nil {
		return err
	}
	c.flow.SetGID(i.expectedGID(&a))
	if err := c.flow.ConnectPair(qpn, id); err != nil {
		return errConnected
	}
	return nil
}

var errConnected = fmt.Errorf("ud: the endpoint is connected already: %w", ucs.ErrInvalidParam)

// IsConnectedTo implements uct.Paired.
func (e *endpoint) IsConnectedTo(dev, iface, ep []byte) bool {
	c := e.conn
	if c.ah == nil {
		return false
	}
	a, err := ib.ParseAddress(dev)
	if err != nil || !a.SamePort(&c.device) {
		return false
	}
	if len(iface) != 0 || ep == nil {
		if q, err := wire.ParseIfaceAddr(iface); err != nil || verbs.QPN(q) != c.qpn {
			return false
		}
	}
	if ep == nil {
		return true
	}
	q, id, err := wire.ParseEPAddr(ep)
	return err == nil && verbs.QPN(q) == c.qpn && c.flow.Connected() && id == c.flow.PeerID()
}

// Source implements uct.NetworkEndpoint.
func (e *endpoint) Source() *uct.Source {
	if !e.conn.flow.Connected() || e.failed != nil {
		return nil
	}
	return &e.conn.Source
}

// PendingAdd implements uct.Endpoint.
func (e *endpoint) PendingAdd(p *uct.Pending) error {
	if e.failed != nil || e.pending.Empty() && e.Room() == kit.Open {
		return ucs.ErrBusy
	}
	e.iface.Waiting.Add(&e.pending, e, p)
	return nil
}

// PendingPurge implements uct.Endpoint.
func (e *endpoint) PendingPurge(fn func(*uct.Pending)) { e.iface.Waiting.Purge(&e.pending, fn) }

// Room implements kit.Sender.
func (e *endpoint) Room() kit.Room {
	i := e.iface
	switch {
	case e.failed != nil || !e.conn.flow.CanSend():
		return kit.Full
	case i.starved || i.sq.room() <= i.sq.reserve || i.slots.exhausted():
		return kit.Exhausted
	case i.slots.tight() && e.conn.flow.InFlight() >= i.slots.few:
		return kit.Full
	}
	return kit.Open
}

// admit returns nil if a message may be sent now. Otherwise it returns ucs.ErrNoResource or the
// error that the endpoint has failed with.
func (e *endpoint) admit() error {
	i := e.iface
	if e.pending.Empty() && e.failed == nil && e.conn.flow.CanSend() && i.sq.room() > i.sq.reserve && !i.starved {
		return nil
	}
	return e.admitSlow()
}

//go:noinline
func (e *endpoint) admitSlow() error {
	switch {
	case e.failed != nil:
		return e.failed
	case e.pending.Blocks() || e.Room() != kit.Open:
		return ucs.ErrNoResource
	}
	return nil
}
