//go:build linux

package cm

import (
	"errors"
	"fmt"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/internal/connkit"
)

// Limits on the connections of peers, in addition to the backlog of each listener.
const (
	mostOfSource = 1 << 14 // limit on connections of one source address, in the process
	mostOfAll    = 1 << 16 // limit on connections of all sources, in the process
)

// request is an incoming request that waits for the application.
type request struct {
	connkit.Request
	l  *listener
	id *rdmacm.ID
	at rdmacm.Addr
}

// handleRequest handles an incoming request. It counts the request against its source address, checks the
// limits, and calls look for further checks. A request beyond a limit is rejected.
func (l *listener) handleRequest(e *rdmacm.Event) {
	a, err := e.ID.QueryAddr()
	if err != nil || !a.Dst.IsValid() {
		e.ID.Close() // the client has gone already
		return
	}
	r := &request{l: l, id: e.ID, at: a}
	r.Init(&l.Listener, r, connkit.ChargeTo(a.Dst.Addr(), 0))
	r.Public.Source = uct.SourceInfo{Addr: a.Dst, User: uct.PeerUser{UID: -1, GID: -1, PID: -1}}
	r.Public.LocalAddr = a.Src
	switch full := l.Full(r.Charge); {
	case l.closed: // by the handler of an earlier event
		r.Drop()
		r.Settle()
	case r.Exceeds(mostOfSource, mostOfAll):
		r.Refuse(ledger.Connections, "too many requests")
	case full != "":
		r.Refuse(ledger.Connections, full)
	default:
		r.checkAndDeliver(e.PrivateData())
	}
}

// checkAndDeliver finds the device of the request, checks the source address, asks ListenParams.Accept,
// parses the data, and delivers the request to the application. A request that fails a check
// is rejected.
func (r *request) checkAndDeliver(data []byte) {
	l, a := r.l, &r.at
	at, err := l.m.c.devices.at(a)
	if err != nil {
		// Another server may serve the client: a client that was not rejected goes on trying.
		r.unusable(err)
		return
	}
	r.Public.Device = at.device.portName(at.port)
	r.Public.Source.Addr, r.Public.LocalAddr = at.zoned(a.Dst), at.zoned(a.Src)
	addr, gid, err := at.device.peer(r.id, at.port)
	if err != nil {
		r.unusable(err)
		return
	}
	// The source address is the one in the packet. With RoCE, an address other than the one
	// that the answer goes to is spoofed.
	if gid.IsValid() && gid != a.Dst.Addr().Unmap().WithZone("") {
		r.Refuse(ledger.Claim, fmt.Sprintf("the address that it claims differs from %v, to which the reply goes", gid))
		return
	}
	if accept := l.Params.Accept; accept != nil && (!accept(r.Public.Source) || l.closed) {
		r.Refuse(ledger.Policy, "refused by the application's Accept function")
		return
	}
	status, private, err := parseData(data)
	if err == nil && status != ucs.OK {
		err = fmt.Errorf("%w: %d", errStatus, int8(status))
	}
	if err != nil {
		r.Refuse(ledger.Malformed, err.Error())
		return
	}
	r.Public.RemoteDeviceAddr, r.Public.Private = addr, private
	l.Present(l, &r.Request)
}

// Reject implements connkit.Client.
func (r *request) Reject() {
	r.id.Reject(rejection)
	r.id.Close()
}

// Drop implements connkit.Client. To the client it looks as if there were no listener.
func (r *request) Drop() { r.id.Close() }

// unusable drops a request that cannot be answered over its device, without a rejection.
func (r *request) unusable(err error) {
	r.l.Refused(r.Charge, ledger.Connections, "dropping", r.Public.Source.Addr, err.Error())
	r.Drop()
	r.Settle()
}

// Accept implements uct.ConnManager.
func (m *manager) Accept(r *uct.ConnRequest, p uct.AcceptParams) (uct.ConnEndpoint, error) {
	c, err := m.Consume(r, &p)
	if err != nil {
		return nil, err
	}
	q := c.(*request)
	ep := &endpoint{Route: connkit.Route{Local: q.Public.LocalAddr, Remote: q.Public.Source.Addr}, m: m, id: q.id, step: awaitNotify}
	ep.InitServer(&m.Manager, ep, &p)
	if err := ep.accept(q, p.Private); err != nil {
		q.Reject()
		ep.number.close()
		return nil, err
	}
	ep.Register()
	return ep, nil
}

// accept answers the request. The kernel returns the same error if the client has gone and if
// the answer cannot be sent, and C UCX does not distinguish them either
// (uct_rdmacm_cm_ep_send_priv_data).
func (ep *endpoint) accept(q *request, private []byte) error {
	m := ep.m
	ep.id.Context = ep // the kernel has reported no event of the ID, so nothing reads Context yet
	if m != q.l.m {
		if err := ep.id.Migrate(m.ch); err != nil {
			if errors.Is(err, ucs.ErrCanceled) {
				return q.Dropped() // the listener's manager was closed just now
			}
			return ep.broken("accept", err, ucs.ErrConnectionReset)
		}
		m.look = true
	}
	at, err := m.c.devices.at(&q.at)
	if err == nil {
		ep.device = at.device
		ep.number, err = ep.device.number()
	}
	if err == nil {
		err = ep.id.Accept(&rdmacm.ConnParam{PrivateData: appendData(nil, ucs.OK, private), QPN: ep.number.qpn()})
	}
	if err != nil {
		return ep.broken("accept", err, ucs.ErrConnectionReset)
	}
	return nil
}
