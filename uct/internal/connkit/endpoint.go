package connkit

import (
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/uct"
)

// Route holds the addresses of both ends of a connection. An address that is not known yet is not
// valid.
type Route struct{ Local, Remote netip.AddrPort }

// LocalAddr implements uct.ConnEndpoint.
func (r *Route) LocalAddr() netip.AddrPort { return r.Local }

// RemoteAddr implements uct.ConnEndpoint.
func (r *Route) RemoteAddr() netip.AddrPort { return r.Remote }

// String returns the addresses for error texts.
func (r *Route) String() string {
	if !r.Local.IsValid() {
		return fmt.Sprintf("to %v", r.Remote)
	}
	return fmt.Sprintf("%v to %v", r.Local, r.Remote)
}

// Phase is the state of an endpoint as far as the application was notified of it.
type Phase uint8

// Phases of an endpoint.
const (
	Opening   Phase = iota // the application waits for the result
	Connected              // the application was notified of the connection
	Over                   // the application was notified of the failure or the end
	Closed                 // the application has closed the endpoint
)

// Conn is the transport's side of an Endpoint.
type Conn interface {
	uct.ConnEndpoint

	// Ending is called before the application is notified of a failure or an end of the endpoint,
	// which was in phase was. It closes the connection if the endpoint was never connected. err is
	// nil if the application has asked for the end.
	Ending(err error, was Phase)
}

// Endpoint is the base of a uct.ConnEndpoint. The transport reads the exported fields.
type Endpoint struct {
	Phase         Phase
	Client        bool
	Notified      bool // of a client: Notify was called
	Disconnecting bool // Disconnect was called

	m       *Manager
	conn    Conn
	failing bool  // the endpoint is in Manager.failed
	err     error // for Manager.Progress to report

	pack   func(uct.PackArgs, []byte) (int, error)
	opened func(uct.ConnectedArgs) // called at the end of phase Opening
	ended  func(uct.ConnEndpoint, error)
}

// InitClient prepares the endpoint of a client.
func (ep *Endpoint) InitClient(m *Manager, conn Conn, p *uct.ConnectParams) {
	on := p.OnConnected
	*ep = Endpoint{m: m, conn: conn, Client: true, pack: p.Pack, ended: p.OnDisconnected}
	ep.opened = func(a uct.ConnectedArgs) { on(conn, a) }
}

// InitServer prepares the endpoint of a server.
func (ep *Endpoint) InitServer(m *Manager, conn Conn, p *uct.AcceptParams) {
	on := p.OnNotify
	*ep = Endpoint{m: m, conn: conn, ended: p.OnDisconnected}
	ep.opened = func(a uct.ConnectedArgs) {
		if on != nil {
			on(conn, a.Err)
		}
	}
}

// Register adds an endpoint to its manager.
func (ep *Endpoint) Register() {
	ep.m.endpoints[ep.conn] = struct{}{}
	if ep.Client {
		ep.m.dialing++
	}
}

// Unregister removes an endpoint that holds no resources any more from its manager.
func (ep *Endpoint) Unregister() { delete(ep.m.endpoints, ep.conn) }

// Pack calls the application's function that packs the private data of a client's request.
func (ep *Endpoint) Pack(a uct.PackArgs) ([]byte, error) {
	if ep.pack == nil {
		return nil, nil
	}
	most := ep.m.attr.MaxPrivate
	b := make([]byte, most)
	n, err := ep.pack(a, b)
	if err == nil && (n < 0 || n > most) {
		err = ep.m.tooLong(n)
	}
	if err != nil {
		return nil, err
	}
	return b[:n], nil
}

// Succeed notifies the application that the endpoint is connected. a.Err is nil.
func (ep *Endpoint) Succeed(a uct.ConnectedArgs) {
	ep.become(Connected)
	ep.opened(a)
}

// Fail notifies the application of a failure or of the end. In the phases Over and Closed it does
// nothing.
func (ep *Endpoint) Fail(err error) {
	was := ep.Phase
	if was >= Over {
		return
	}
	ep.become(Over)
	ep.conn.Ending(err, was)
	if was == Opening {
		ep.opened(uct.ConnectedArgs{Err: err})
	} else if ep.ended != nil {
		ep.ended(ep.conn, err)
	}
}

// FailLater makes the next Progress call Fail. It is for errors inside a call of the application,
// because callbacks run inside Progress.
func (ep *Endpoint) FailLater(err error) {
	if !ep.failing {
		ep.failing, ep.err = true, err
		ep.m.failed = append(ep.m.failed, ep)
	}
}

func (ep *Endpoint) become(p Phase) {
	if ep.Client && ep.Phase == Opening {
		ep.m.dialing--
	}
	ep.Phase = p
}

// BeginNotify checks and records a call of Notify. It returns the error for the application.
func (ep *Endpoint) BeginNotify() error {
	switch {
	case !ep.Client:
		return ep.m.error(errNotClient)
	case ep.Phase != Connected || ep.Disconnecting:
		return ep.m.error(errNoLink)
	case ep.Notified:
		return ep.m.error(errTwice)
	}
	ep.Notified = true
	return nil
}

// BeginDisconnect checks and records a call of Disconnect. The parameter open says whether the
// transport still has the connection. The result first reports whether this is the first such call.
func (ep *Endpoint) BeginDisconnect(open bool) (first bool, err error) {
	switch {
	case ep.Phase == Opening:
		return false, ep.m.error(errNotYet)
	case ep.Phase == Closed || !open:
		return false, ep.m.error(errNoLink)
	}
	first, ep.Disconnecting = !ep.Disconnecting, true
	return first, nil
}

// BeginClose puts an endpoint that the application closes into phase Closed, and returns the phase
// before, which is Closed if the endpoint was closed already.
func (ep *Endpoint) BeginClose() (was Phase) {
	was = ep.Phase
	if was != Closed {
		ep.become(Closed)
	}
	return was
}
