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
	"github.com/ucx-go/ucx/uct/internal/connkit"
)

// Connect implements uct.ConnManager.
func (m *manager) Connect(p uct.ConnectParams) (uct.ConnEndpoint, error) {
	from := p.Local
	if !from.IsValid() && m.opts.source.IsValid() {
		from = netip.AddrPortFrom(m.opts.source, 0)
	}
	if err := m.CheckConnect(&p, from); err != nil {
		return nil, err
	}
	id, err := m.ch.CreateID(rdmacm.PortSpaceTCP, 0)
	if err != nil {
		return nil, &failure{fmt.Sprintf("connect to %v", p.Remote), err, limitStatus(err)}
	}
	ep := &endpoint{Route: connkit.Route{Remote: p.Remote}, m: m, id: id, timeLeft: m.opts.timeout, tryTimeout: firstTry}
	ep.InitClient(&m.Manager, ep, &p)
	id.Context = ep
	if from.IsValid() {
		if err := id.BindAddr(from); err != nil {
			id.Close()
			return nil, &failure{fmt.Sprintf("connect to %v from %v", p.Remote, from), err, bindStatus(err, from)}
		}
	}
	// The kernel may know at once that no device leads to the server. That failure is reported
	// inside progress.
	if err := ep.find(); err != nil {
		if errors.Is(err, ucs.ErrNoMemory) {
			id.Close()
			return nil, &failure{fmt.Sprintf("connect to %v", p.Remote), err, ucs.ErrNoMemory}
		}
		ep.FailLater(ep.broken("connect", err, ucs.ErrUnreachable))
	}
	ep.Register()
	return ep, nil
}

// firstTry is the timeout of the first attempt to resolve the server's hardware address. The kernel
// misses an answer that arrives just as it begins to wait, as happens with a neighbor in the same
// machine, and looks again only when the timeout expires. So the first timeout is short, and each
// further attempt has twice the timeout of the one before.
const firstTry = 100 * time.Millisecond

// find starts an attempt to resolve the server's address, with the timeout ep.tryTimeout but at most
// the time that is left for all attempts, ep.timeLeft.
func (ep *endpoint) find() error {
	d := min(ep.tryTimeout, ep.timeLeft)
	ep.timeLeft -= d
	ep.tryTimeout *= 2
	return ep.id.ResolveAddr(netip.AddrPort{}, ep.Remote, d)
}

// findAgain starts another attempt if err is a timeout and time is left. It reports whether it did.
func (ep *endpoint) findAgain(err error) bool {
	return ep.Phase == connkit.Opening && ep.step == findAddress && ep.timeLeft > 0 && errors.Is(err, ucs.ErrTimedOut) && ep.find() == nil
}

// route resolves the route to the address that was found.
func (ep *endpoint) route() {
	ep.step = findRoute
	if err := ep.id.ResolveRoute(ep.m.opts.timeout); err != nil {
		ep.Fail(ep.broken("resolve the route", err, ucs.ErrUnreachable))
	}
}

// sendRequest sends the connection request, once the route is known.
func (ep *endpoint) sendRequest() {
	if err := ep.locate(); err != nil {
		ep.Fail(ep.broken("connect", err, ucs.ErrUnreachable))
		return
	}
	private, err := ep.Pack(uct.PackArgs{Device: ep.device.portName(ep.port), LocalAddr: ep.Local})
	switch {
	case ep.Phase != connkit.Opening: // Pack has closed the endpoint
		return
	case err != nil:
		ep.Fail(err)
		return
	}
	ep.step = awaitAnswer
	if ep.number, err = ep.device.number(); err == nil {
		err = ep.id.Connect(&rdmacm.ConnParam{PrivateData: appendData(nil, ucs.OK, private), QPN: ep.number.qpn()})
	}
	if err != nil {
		ep.Fail(ep.broken("connect", err, ucs.ErrUnreachable))
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
	ep.Local, ep.Remote = at.zoned(a.Src), at.zoned(a.Dst)
	return nil
}

// answered handles the server's answer, which carries its status and private data.
func (ep *endpoint) answered(e *rdmacm.Event) {
	status, private, err := parseData(e.PrivateData())
	if err == nil && status != ucs.OK {
		ep.Fail(ep.broken("connect", errors.New("the server replied with an error"), status))
		return
	}
	var addr []byte
	if err == nil {
		addr, _, err = ep.device.peer(ep.id, ep.port)
	}
	if err != nil {
		ep.Fail(ep.broken("connect", err, ucs.ErrConnectionReset))
		return
	}
	ep.Succeed(uct.ConnectedArgs{RemoteDeviceAddr: addr, Private: private})
}
