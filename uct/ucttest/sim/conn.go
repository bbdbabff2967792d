package sim

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/connkit"
)

// connEndpoint implements uct.ConnEndpoint. A client's is connected to the server's when the answer
// has arrived.
type connEndpoint struct {
	connkit.Endpoint
	connkit.Route
	m    *connManager
	link connLink // of letters to this endpoint

	peer    *connEndpoint // the other end; nil before the answer
	request *connRequest  // of a client, until it is answered
	ended   bool          // this side has said that it sends nothing more
	closed  bool          // the connection does not exist any more at this side
}

var (
	errGone     = fmt.Errorf("sim: the other end of the connection is gone: %w", ucs.ErrConnectionReset)
	errNoServer = fmt.Errorf("sim: nothing listens at the address: %w", ucs.ErrNotConnected)
	errNoAnswer = fmt.Errorf("sim: the host does not answer: %w", ucs.ErrUnreachable)
	errRejected = fmt.Errorf("sim: the server has rejected the client: %w", ucs.ErrRejected)
)

// Connect implements uct.ConnManager.
func (m *connManager) Connect(p uct.ConnectParams) (uct.ConnEndpoint, error) {
	if err := m.CheckConnect(&p, p.Local); err != nil {
		return nil, err
	}
	if a := p.Local.Addr(); p.Local.IsValid() && !a.IsUnspecified() && a != m.place.IP {
		return nil, fmt.Errorf("sim: connect from %v: no address of this host: %w", p.Local, ucs.ErrInvalidAddr)
	}
	ep := &connEndpoint{m: m, Route: connkit.Route{Remote: p.Remote, Local: m.local(p.Local.Port())}}
	ep.InitClient(&m.Manager, ep, &p)
	ep.register()
	at := m.c.HostAt(p.Remote.Addr())
	m.after(m.c.Timeout, func() {
		if ep.Phase == connkit.Opening && ep.request == nil {
			ep.Fail(errNoAnswer)
		}
	})
	switch {
	case at == nil:
	case m.c.Early:
		m.after(1, ep.packed)
	default:
		ep.knock(at, firstKnock)
	}
	return ep, nil
}

// firstKnock is the time after which a host that cannot be reached is tried again. It doubles each time.
const firstKnock = uint64(time.Second)

// knock waits for the answer of the host before the request is sent.
func (ep *connEndpoint) knock(at *Place, again uint64) {
	m := ep.m
	if ep.Phase != connkit.Opening {
		return
	}
	there := m.o.Medium.Carry(m.place, at, m.o.Medium.Now(), 0)
	if there == Never {
		m.after(again, func() { ep.knock(at, 2*again) })
		return
	}
	m.carry(at, &ep.link, there, 0, func() {
		if m.o.Network.listeners[ep.Remote] == nil {
			ep.Fail(errNoServer)
		} else {
			ep.packed()
		}
	})
}

func (ep *connEndpoint) register() {
	ep.Register()
	ep.m.conns = append(ep.m.conns, ep)
}

// packed sends the client's request.
func (ep *connEndpoint) packed() {
	m := ep.m
	if ep.Phase != connkit.Opening {
		return
	}
	private, err := ep.Pack(uct.PackArgs{Device: m.c.Device, LocalAddr: ep.Local})
	switch {
	case ep.Phase != connkit.Opening: // Pack has closed the endpoint
		return
	case err != nil:
		ep.Fail(err)
		return
	}
	l := m.o.Network.listeners[ep.Remote]
	if l == nil {
		at := m.c.HostAt(ep.Remote.Addr())
		if at == nil {
			return // until the timeout
		}
		if there := m.o.Medium.Carry(m.place, at, m.o.Medium.Now(), 0); there != Never {
			m.carry(at, &ep.link, there, 0, func() { ep.Fail(errNoServer) })
		}
		return
	}
	r := &connRequest{client: ep, l: l, private: private}
	ep.request = r
	due := l.m.carry(m.place, &r.link, m.o.Medium.Now(), len(private), r.arrives)
	if due == Never || due == 0 {
		m.after(m.c.Timeout, func() {
			if ep.Phase == connkit.Opening && !r.arrived {
				ep.Fail(errNoAnswer)
			}
		})
	}
}

// connRequest is a client's request at the server.
type connRequest struct {
	connkit.Request
	client  *connEndpoint
	l       *connListener
	link    connLink // of letters to the server
	private []byte
	arrived bool
	gone    bool // the client has ended
}

// arrives shows the request to the application.
func (r *connRequest) arrives() {
	r.arrived = true
	l, ep := r.l, r.client
	if r.gone {
		return
	}
	if l.closed {
		ep.tell(l.m.place, func() { ep.Fail(errNoServer) })
		return
	}
	info := uct.SourceInfo{Addr: ep.Local, User: uct.PeerUser{UID: -1, GID: -1, PID: -1}}
	if from := ep.m.place; from.IP == l.m.place.IP {
		info.Local, info.User.Known, info.User.UID = true, true, from.UID
	}
	if l.Params.Accept != nil && !l.Params.Accept(info) {
		ep.tell(l.m.place, func() { ep.Fail(errGone) })
		return
	}
	r.Init(&l.Listener, r, connkit.ChargeTo(ep.Local.Addr(), 1))
	q := &r.Public
	q.Source, q.LocalAddr, q.Device = info, ep.Remote, l.m.c.Device
	q.RemoteDeviceAddr, q.Private = l.m.deviceAddr(), bytes.Clone(r.private)
	l.waiting = append(l.waiting, r)
	l.Present(l, &r.Request)
}

// answered removes the request from those that wait.
func (r *connRequest) answered() {
	r.l.waiting = slices.DeleteFunc(r.l.waiting, func(o *connRequest) bool { return o == r })
}

// Reject implements connkit.Client.
func (r *connRequest) Reject() {
	r.answered()
	r.client.tell(r.l.m.place, func() { r.client.Fail(errRejected) })
}

// Drop implements connkit.Client.
func (r *connRequest) Drop() {
	r.answered()
	r.client.tell(r.l.m.place, func() { r.client.Fail(errNoServer) })
}

// end tells the client that the server's process has ended.
func (ep *connEndpoint) end(from *Place) { ep.tell(from, func() { ep.Fail(errNoServer) }) }

// tell sends a letter to the endpoint. It is not opened if the endpoint is closed by then.
func (ep *connEndpoint) tell(from *Place, open func()) {
	m := ep.m
	m.carry(from, &ep.link, m.o.Medium.Now(), 0, func() {
		if !ep.closed {
			open()
		}
	})
}

// Accept implements uct.ConnManager.
func (m *connManager) Accept(q *uct.ConnRequest, p uct.AcceptParams) (uct.ConnEndpoint, error) {
	c, err := m.Consume(q, &p)
	if err != nil {
		return nil, err
	}
	r := c.(*connRequest)
	r.answered()
	client := r.client
	ep := &connEndpoint{m: m, Route: connkit.Route{Local: client.Remote, Remote: client.Local}, peer: client}
	ep.link.lastDue = r.link.lastDue
	ep.InitServer(&m.Manager, ep, &p)
	ep.register()
	if r.gone || client.closed {
		ep.tell(client.m.place, func() { ep.Fail(errGone) })
		return ep, nil
	}
	private := bytes.Clone(p.Private)
	client.peer = ep
	client.tell(m.place, func() {
		if client.Phase == connkit.Opening {
			client.Succeed(uct.ConnectedArgs{RemoteDeviceAddr: client.m.deviceAddr(), Private: private})
		}
	})
	return ep, nil
}

// Notify implements uct.ConnEndpoint.
func (ep *connEndpoint) Notify() error {
	if err := ep.BeginNotify(); err != nil {
		return err
	}
	peer := ep.peer
	peer.tell(ep.m.place, func() {
		if peer.Phase == connkit.Opening {
			peer.Succeed(uct.ConnectedArgs{})
		}
	})
	return nil
}

// Disconnect implements uct.ConnEndpoint.
func (ep *connEndpoint) Disconnect() error {
	first, err := ep.BeginDisconnect(!ep.closed)
	if first && err == nil {
		ep.sayEnd()
	}
	return err
}

// sayEnd tells the other side that this one is done.
func (ep *connEndpoint) sayEnd() {
	peer := ep.peer
	if ep.ended || peer == nil {
		return
	}
	ep.ended = true
	peer.tell(ep.m.place, func() {
		if peer.Phase == connkit.Connected && peer.Disconnecting {
			peer.Fail(nil)
		} else {
			peer.Fail(errGone)
		}
	})
}

// Ending implements connkit.Conn.
func (ep *connEndpoint) Ending(_ error, was connkit.Phase) {
	if was == connkit.Opening {
		ep.release()
	}
}

// release gives up the connection.
func (ep *connEndpoint) release() {
	if ep.closed {
		return
	}
	ep.closed = true
	ep.sayEnd()
	if r := ep.request; r != nil {
		r.gone = true
	}
}

// Close implements uct.ConnEndpoint.
func (ep *connEndpoint) Close() {
	if ep.BeginClose() == connkit.Closed {
		return
	}
	ep.release()
	ep.Unregister()
	ep.m.conns = slices.DeleteFunc(ep.m.conns, func(o *connEndpoint) bool { return o == ep })
}
