//go:build linux

package cm

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
)

// Limits on the connections of peers, in addition to the backlog of each listener.
const (
	mostOfSource = 1 << 14 // connections of one source, in the process
	mostOfAll    = 1 << 16 // connections of all sources, in the process
)

// request is an incoming request that waits for the application. It is in its listener's list
// until it is accepted, rejected or dropped; any goroutine may accept or reject it.
type request struct {
	l       *listener
	id      *rdmacm.ID
	at      rdmacm.Addr
	source  ledger.Source
	account *ledger.Account
	gone    error // why it cannot be consumed any more; guarded by l.mu
	public  uct.ConnRequest
}

// welcome handles an incoming request. It charges the request to its source, checks the limits,
// and passes the request on to look. A request beyond a limit is rejected.
func (l *listener) welcome(e *rdmacm.Event) {
	a, err := e.ID.QueryAddr()
	if err != nil || !a.Dst.IsValid() {
		e.ID.Close() // the client has gone already
		return
	}
	r := &request{l: l, id: e.ID, at: a, source: ledger.SourceOf(a.Dst.Addr(), -1)}
	r.account = ledger.Open(r.source)
	r.account.Add(ledger.Conns, 1)
	r.public = uct.ConnRequest{
		Source:    uct.SourceInfo{Addr: a.Dst, User: uct.PeerUser{UID: -1, GID: -1, PID: -1}},
		LocalAddr: a.Src,
		Owner:     r,
	}
	switch {
	case l.closed: // by the handler of an earlier event
		r.drop()
	case r.account.Of(ledger.Conns) > mostOfSource || ledger.Total(ledger.Conns) > mostOfAll:
		r.refuse(ledger.Connections, "too many requests")
	case !l.hasRoom(r.source):
		r.refuse(ledger.Connections, fmt.Sprintf("%d wait already", l.pending.Most()))
	default:
		r.look(e.PrivateData())
	}
}

// look finds the device of the request, checks the source address, asks ListenParams.Accept,
// parses the data, and delivers the request to the application. A request that fails a check
// is rejected.
func (r *request) look(data []byte) {
	l, a := r.l, &r.at
	at, err := l.m.c.devices.at(a)
	if err != nil {
		// Another server may serve the client: a client that was not rejected goes on trying.
		r.unusable(err)
		return
	}
	r.public.Device = at.device.portName(at.port)
	r.public.Source.Addr, r.public.LocalAddr = at.zoned(a.Dst), at.zoned(a.Src)
	addr, gid, err := at.device.peer(r.id, at.port)
	if err != nil {
		r.unusable(err)
		return
	}
	// The source address is the one in the packet. With RoCE, an address other than the one
	// that the answer goes to is spoofed.
	if gid.IsValid() && gid != a.Dst.Addr().Unmap().WithZone("") {
		r.refuse(ledger.Claim, fmt.Sprintf("it says that it is elsewhere than at %v, where it is answered", gid))
		return
	}
	if accept := l.params.Accept; accept != nil && (!accept(r.public.Source) || l.closed) {
		r.refuse(ledger.Policy, "not allowed here")
		return
	}
	status, private, err := parseData(data)
	if err == nil && status != ucs.OK {
		err = fmt.Errorf("%w: %d", errStatus, int8(status))
	}
	if err != nil {
		r.refuse(ledger.Malformed, err.Error())
		return
	}
	r.public.RemoteDeviceAddr, r.public.Private = addr, private
	l.admit(r)
	l.params.OnRequest(l, &r.public)
}

// hasRoom reports whether a source may have one more request waiting.
func (l *listener) hasRoom(source ledger.Source) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pending.HasRoom(source)
}

// admit adds a request to the list. HasRoom must have been true for its source. If the list is
// full, a request of another source is rejected to make room.
func (l *listener) admit(r *request) {
	l.mu.Lock()
	q, _ := l.pending.Add(r, r.source) // Add succeeds: since HasRoom was true, requests can only have gone
	if q != nil {
		q.gone = errCrowded
	}
	l.mu.Unlock()
	if q != nil {
		q.refuse(ledger.Connections, "others want to wait, and its source has many requests")
	}
}

// take removes the request from the list and gives its ID to the caller. It returns an error if
// the request was taken or dropped before.
func (r *request) take() error {
	l := r.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.gone != nil {
		return r.gone
	}
	r.gone = errConsumed
	l.pending.Remove(r)
	r.settle()
	return nil
}

// settle takes the connection off the account of the source and closes the account.
func (r *request) settle() {
	r.account.Add(ledger.Conns, -1)
	r.account.Close()
}

// RejectRequest implements uct.ConnRequestOwner. It returns no error if the client has gone in
// the meantime.
func (r *request) RejectRequest() error {
	if err := r.take(); err != nil {
		return err
	}
	r.turnAway()
	return nil
}

// turnAway rejects the client and closes the ID.
func (r *request) turnAway() {
	r.id.Reject(rejection)
	r.id.Close()
}

// refuse rejects a client without showing the request to the application, or after the request
// had to make room for another. It counts the refusal and logs it once a minute at most for
// each reason.
func (r *request) refuse(reason ledger.Reason, why string) {
	if r.account.Refuse(reason) {
		r.l.m.w.Log().Diag("rejecting a client of the RDMA connection manager; there may be more, which are not logged",
			zap.Stringer("listener", r.l.addr), zap.Stringer("client", r.public.Source.Addr), zap.String("reason", why))
	}
	r.turnAway()
	r.settle()
}

// unusable drops a request that cannot be answered over its device, without a rejection.
func (r *request) unusable(err error) {
	if r.account.Refuse(ledger.Connections) {
		r.l.m.w.Log().Diag("dropping a client of the RDMA connection manager; there may be more, which are not logged",
			zap.Stringer("listener", r.l.addr), zap.Stringer("client", r.public.Source.Addr), zap.Error(err))
	}
	r.drop()
}

// drop closes the ID without a rejection by the application: to the client it looks as if
// there were no listener.
func (r *request) drop() {
	r.id.Close()
	r.settle()
}

// dropRequests drops all waiting requests of a listener that is closed.
func (l *listener) dropRequests() {
	l.mu.Lock()
	pending := l.pending.Drain()
	for _, r := range pending {
		r.gone = errDropped
	}
	l.mu.Unlock()
	for _, r := range pending {
		r.drop()
	}
}

// Accept implements uct.ConnManager.
func (m *manager) Accept(r *uct.ConnRequest, p uct.AcceptParams) (uct.ConnEndpoint, error) {
	if m.w == nil {
		return nil, errClosed
	}
	q, ok := r.Owner.(*request)
	if !ok || q.l.m.c != m.c {
		return nil, errForeign
	}
	if err := q.take(); err != nil {
		return nil, err
	}
	if n := len(p.Private); n > maxPrivate {
		q.turnAway()
		return nil, tooLong(n)
	}
	ep := &endpoint{
		m: m, id: q.id, step: awaitNotify, ended: p.OnDisconnected,
		local: q.public.LocalAddr, remote: q.public.Source.Addr,
	}
	ep.opened = func(ep *endpoint, err error, _ answer) {
		if p.OnNotify != nil {
			p.OnNotify(ep, err)
		}
	}
	if err := ep.accept(q, p.Private); err != nil {
		q.turnAway()
		ep.number.close()
		return nil, err
	}
	m.endpoints[ep] = struct{}{}
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
				return errDropped // the listener's manager was closed just now
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
