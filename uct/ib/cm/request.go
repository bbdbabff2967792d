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

// What strangers can have waiting, beside the backlog of each listener.
const (
	mostOfSource = 1 << 14 // connections of one source, in the process
	mostOfAll    = 1 << 16
)

// request is a client that waits for the application. It is in its listener's list until
// somebody, of any goroutine, consumes it.
type request struct {
	l       *listener
	id      *rdmacm.ID
	at      rdmacm.Addr
	source  ledger.Source
	account *ledger.Account
	gone    error // why it cannot be consumed any more; guarded by l.mu
	public  uct.ConnRequest
}

// welcome makes a request of a client who asks, and shows it to the application.
func (l *listener) welcome(e *rdmacm.Event) {
	a, err := e.ID.QueryAddr()
	if err != nil || !a.Dst.IsValid() {
		e.ID.Close() // it has gone already
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
	case l.closed: // by what it was told before
		r.drop()
	case r.account.Of(ledger.Conns) > mostOfSource || ledger.Total(ledger.Conns) > mostOfAll:
		r.refuse(ledger.Connections, "too many requests")
	case !l.hasRoom(r.source):
		r.refuse(ledger.Connections, fmt.Sprintf("%d wait already", l.pending.Most()))
	default:
		r.look(e.PrivateData())
	}
}

// look finds out what the request is about, and whether it is welcome.
func (r *request) look(data []byte) {
	l, a := r.l, &r.at
	at, err := l.m.c.devices.at(a)
	if err != nil {
		// Somebody else may serve the client, who goes on looking if it was not rejected.
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
	// The source is what the packet says. With RoCE the answer goes to that address, or
	// it is not the client's.
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

// admit puts a request for which there is room on the list.
func (l *listener) admit(r *request) {
	l.mu.Lock()
	q, _ := l.pending.Add(r, r.source) // there is room: since it was looked, some may have gone
	if q != nil {
		q.gone = errCrowded
	}
	l.mu.Unlock()
	if q != nil {
		q.refuse(ledger.Connections, "others want to wait, and its source has many requests")
	}
}

// take consumes the request: its ID is the caller's from then on.
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

// settle gives back what the request was charged with.
func (r *request) settle() {
	r.account.Add(ledger.Conns, -1)
	r.account.Close()
}

// RejectRequest implements uct.ConnRequestOwner. That the client has gone meanwhile is
// none of the caller's business.
func (r *request) RejectRequest() error {
	if err := r.take(); err != nil {
		return err
	}
	r.turnAway()
	return nil
}

// turnAway tells the client that it is rejected.
func (r *request) turnAway() {
	r.id.Reject(rejection)
	r.id.Close()
}

// refuse turns a client away whom the application does not get to see.
func (r *request) refuse(reason ledger.Reason, why string) {
	if r.account.Refuse(reason) {
		r.l.m.w.Log().Diag("rejecting a client of the RDMA connection manager; there may be more, which are not logged",
			zap.Stringer("listener", r.l.addr), zap.Stringer("client", r.public.Source.Addr), zap.String("reason", why))
	}
	r.turnAway()
	r.settle()
}

// unusable drops a client that cannot be answered over its device.
func (r *request) unusable(err error) {
	if r.account.Refuse(ledger.Connections) {
		r.l.m.w.Log().Diag("dropping a client of the RDMA connection manager; there may be more, which are not logged",
			zap.Stringer("listener", r.l.addr), zap.Stringer("client", r.public.Source.Addr), zap.Error(err))
	}
	r.drop()
}

// drop closes the ID: for the client nobody was there.
func (r *request) drop() {
	r.id.Close()
	r.settle()
}

// dropRequests ends the requests of a listener that is closed.
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

// accept answers. The kernel says in one way that the client has gone and that the answer
// cannot be, and so does C (uct_rdmacm_cm_ep_send_priv_data).
func (ep *endpoint) accept(q *request, private []byte) error {
	m := ep.m
	ep.id.Context = ep // the kernel has told nothing of it, so nobody reads it
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
