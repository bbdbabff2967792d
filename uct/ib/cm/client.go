//go:build linux

package cm

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
)

// Connect implements uct.ConnManager.
func (m *manager) Connect(p uct.ConnectParams) (uct.ConnEndpoint, error) {
	from := p.Local
	if !from.IsValid() && m.opts.source.IsValid() {
		from = netip.AddrPortFrom(m.opts.source, 0)
	}
	switch {
	case m.w == nil:
		return nil, errClosed
	case !p.Remote.IsValid() || p.OnConnected == nil:
		return nil, fmt.Errorf("rdmacm: connect to %v: address or OnConnected is invalid: %w", p.Remote, ucs.ErrInvalidParam)
	case from.IsValid() && from.Addr().Unmap().Is4() != p.Remote.Addr().Unmap().Is4():
		return nil, fmt.Errorf("rdmacm: connect to %v from %v, an address of another family: %w", p.Remote, from, ucs.ErrInvalidParam)
	}
	id, err := m.ch.CreateID(rdmacm.PortSpaceTCP, 0)
	if err != nil {
		return nil, &failure{fmt.Sprintf("connect to %v", p.Remote), err, limitStatus(err)}
	}
	ep := &endpoint{m: m, id: id, client: true, remote: p.Remote, pack: p.Pack, ended: p.OnDisconnected}
	ep.left, ep.patience = m.opts.timeout, firstTry
	ep.opened = func(ep *endpoint, err error, a answer) {
		p.OnConnected(ep, uct.ConnectedArgs{Err: err, RemoteDeviceAddr: a.deviceAddr, Private: a.private})
	}
	id.Context = ep
	if from.IsValid() {
		if err := id.BindAddr(from); err != nil {
			id.Close()
			return nil, &failure{fmt.Sprintf("connect to %v from %v", p.Remote, from), err, bindStatus(err, from)}
		}
	}
	// The kernel may know at once that no device leads to the server. Progress reports that.
	if err := ep.find(); err != nil {
		if errors.Is(err, ucs.ErrNoMemory) {
			id.Close()
			return nil, &failure{fmt.Sprintf("connect to %v", p.Remote), err, ucs.ErrNoMemory}
		}
		ep.failLater(ep.broken("connect", err, ucs.ErrUnreachable))
	}
	m.endpoints[ep] = struct{}{}
	m.dialing++
	return ep, nil
}

// The kernel resolves the hardware address of the server. It misses an answer that arrives
// just as it begins to wait, as the answer of a neighbor in the same machine does, and looks
// again only when the timeout expires. So the first try has the short timeout firstTry, and
// each further try has twice that of the one before.
const firstTry = 100 * time.Millisecond

// find starts a try to resolve the server's address, within the time that is left.
func (ep *endpoint) find() error {
	d := min(ep.patience, ep.left)
	ep.left -= d
	ep.patience *= 2
	return ep.id.ResolveAddr(netip.AddrPort{}, ep.remote, d)
}

// findAgain starts another try after one timed out, and reports whether it has.
func (ep *endpoint) findAgain(err error) bool {
	return ep.phase == opening && ep.step == findAddress && ep.left > 0 && errors.Is(err, ucs.ErrTimedOut) && ep.find() == nil
}

// route resolves the route to the address that was found.
func (ep *endpoint) route() {
	ep.step = findRoute
	if err := ep.id.ResolveRoute(ep.m.opts.timeout); err != nil {
		ep.fail(ep.broken("find a route", err, ucs.ErrUnreachable))
	}
}

// ask sends the connection request, once the route is known.
func (ep *endpoint) ask() {
	if err := ep.locate(); err != nil {
		ep.fail(ep.broken("connect", err, ucs.ErrUnreachable))
		return
	}
	private, err := ep.packed()
	switch {
	case ep.phase != opening: // Pack has closed the endpoint
		return
	case err != nil:
		ep.fail(err)
		return
	}
	ep.step = awaitAnswer
	if ep.number, err = ep.device.number(); err == nil {
		err = ep.id.Connect(&rdmacm.ConnParam{PrivateData: appendData(nil, ucs.OK, private), QPN: ep.number.qpn()})
	}
	if err != nil {
		ep.fail(ep.broken("connect", err, ucs.ErrUnreachable))
	}
}

// locate sets the local and remote addresses of the connection, and the device and port it uses.
func (ep *endpoint) locate() error {
	a, err := ep.id.QueryAddr()
	if err != nil {
		return err
	}
	at, err := ep.m.c.devices.at(&a)
	if err != nil {
		return err
	}
	ep.device, ep.port = at.device, at.port
	ep.local, ep.remote = at.zoned(a.Src), at.zoned(a.Dst)
	return nil
}

// packed asks the application for the private data.
func (ep *endpoint) packed() ([]byte, error) {
	if ep.pack == nil {
		return nil, nil
	}
	b := make([]byte, maxPrivate)
	n, err := ep.pack(uct.PackArgs{Device: ep.device.portName(ep.port), LocalAddr: ep.local}, b)
	if err == nil && (n < 0 || n > maxPrivate) {
		err = tooLong(n)
	}
	if err != nil {
		return nil, err
	}
	return b[:n], nil
}

// answered handles the server's answer, which carries its status and private data.
func (ep *endpoint) answered(e *rdmacm.Event) {
	status, private, err := parseData(e.PrivateData())
	if err == nil && status != ucs.OK {
		ep.fail(ep.broken("connect", errors.New("the server answers with an error"), status))
		return
	}
	var addr []byte
	if err == nil {
		addr, _, err = ep.device.peer(ep.id, ep.port)
	}
	if err != nil {
		ep.fail(ep.broken("connect", err, ucs.ErrConnectionReset))
		return
	}
	ep.succeed(answer{deviceAddr: addr, private: private})
}
