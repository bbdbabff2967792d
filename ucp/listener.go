package ucp

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucp/internal/connect"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// acceptConnRequest makes the endpoint that accepts a connection request. The request is consumed even if
// acceptConnRequest fails.
func (cs *connState) acceptConnRequest(p *EndpointParams) (*Endpoint, error) {
	w := cs.w
	req := p.ConnRequest
	if !req.take() {
		return nil, fmt.Errorf("ucp: the connection request was accepted or rejected before: %w", ucs.ErrInvalidParam)
	}
	if req.ctx != w.ctx {
		req.uct.Reject()
		return nil, fmt.Errorf("ucp: the connection request belongs to another context: %w", ucs.ErrInvalidParam)
	}
	if p.ErrMode == ErrModeNone { // not set, as in C UCX if the field mask lacks the field
		p.ErrMode = req.ErrMode()
	}
	c := &connection{id: p.ClientID, sendID: p.ClientID != 0}
	ep, err := cs.newConnEndpoint(p, c, connect.Server)
	if err == nil {
		ep.life.PeerDisconnectsFirst = true
		if err = cs.acceptCall(ep, req); err == nil {
			return ep, nil
		}
		ep.w.ends.destroy(ep, err)
	}
	req.uct.Reject() // has no effect if acceptCall has consumed the request
	return nil, err
}

func (cs *connState) acceptCall(ep *Endpoint, req *ConnRequest) error {
	c := ep.pair.conn
	d := &req.data
	if ErrMode(d.ErrMode) != ep.errMode && d.ErrMode <= proto.ErrModePeer {
		return fmt.Errorf("ucp: the client's endpoint has error mode %d, this one %d: %w", d.ErrMode, ep.errMode, ucs.ErrUnsupported)
	}
	var m uct.ConnManager
	for k, l := range ep.w.conns.connManagers() {
		if l.name == req.manager {
			m, c.manager = l.uct, k
		}
	}
	if m == nil {
		return errNoManager(ep.w.conns.connManagers())
	}
	c.device = req.uct.Device
	rules := laneRules{cm: true, ends: &d.Address, local: req.uct.LocalAddr.Addr(), device: req.uct.Device, origin: uct.OriginManager, messages: d.Address.Flags&proto.AddressAMOnly != 0}
	if err := ep.w.wireups.connectBy(ep, d.Address.WithoutEnds(), rules); err != nil {
		return err
	}
	numbers, err := ep.w.handshakes.match(ep, &d.Address)
	if err != nil {
		return err
	}
	theirs := func(lane int) uint8 { return numbers[lane] }
	if err := ep.w.handshakes.connectLanes(ep, &offer{addr: &d.Address, number: theirs}); err != nil {
		return err
	}
	ep.handshake.AllDevices, d.RscIndex = cs.devices().Accept(d, connect.PackedBoth(d, cs.interfaces))
	private, err := cs.packConn(ep, d, theirs)
	if err != nil {
		return err
	}
	if c.uct, err = m.Accept(req.uct, uct.AcceptParams{
		Private:        private,
		OnNotify:       ep.onNotify,
		OnDisconnected: ep.onDisconnected,
	}); err != nil {
		c.uct = nil
		return err
	}
	ep.w.wireups.connected(ep, d.EpID)
	return nil
}

// onNotify is called by the connection manager when the client has notified that its lanes are
// connected, or with an error if the connection has failed before.
func (ep *Endpoint) onNotify(_ uct.ConnEndpoint, err error) {
	c := ep.conn()
	if c == nil || ep.gone() != nil {
		return
	}
	if err != nil {
		ep.fail(err)
		return
	}
	if err := ep.w.handshakes.carryOut(ep, ep.w.handshakes.advance(ep, connect.Notified), nil); err != nil {
		ep.fail(err)
	}
}

// ConnRequest is the connection request of a client that waits for an answer. It is either
// accepted, by EndpointParams.ConnRequest on any worker of the context, or rejected, once.
// Any goroutine may use it.
type ConnRequest struct {
	_ noCopy

	ctx     *Context
	manager string
	uct     *uct.ConnRequest
	data    proto.CMData
	taken   atomic.Bool
}

// take reserves the request for the caller, which must accept or reject it. It returns false if the
// request was taken before.
func (r *ConnRequest) take() bool { return !r.missing() && !r.taken.Swap(true) }

// Reject rejects the client, as Listener.Reject does.
func (r *ConnRequest) Reject() error {
	if r.missing() {
		return errMissing("ConnRequest.Reject", r == nil)
	}
	if !r.take() {
		return fmt.Errorf("ucp: the connection request was accepted or rejected before: %w", ucs.ErrInvalidParam)
	}
	return r.uct.Reject()
}

// ClientAddr returns the address that the client connects from. The error is
// ucs.ErrUnsupported if the connection manager does not know it; all of this library's do.
func (r *ConnRequest) ClientAddr() (netip.AddrPort, error) {
	if r.missing() {
		return netip.AddrPort{}, errMissing("ConnRequest.ClientAddr", r == nil)
	}
	if !r.uct.Source.Addr.IsValid() {
		return netip.AddrPort{}, fmt.Errorf("ucp: ConnRequest.ClientAddr: %w", ucs.ErrUnsupported)
	}
	return r.uct.Source.Addr, nil
}

// ClientID returns the client's WorkerParams.ClientID if its endpoint was made with
// EndpointSendClientID, else 0. The value is the client's claim.
func (r *ConnRequest) ClientID() uint64 { return r.data.Address.ClientID }

// ErrMode returns the error handling mode of the client's endpoint. The accepting endpoint
// has the same mode.
func (r *ConnRequest) ErrMode() ErrMode { return min(ErrMode(r.data.ErrMode), ErrModePeer) }

// Peer returns what the kernel knows about the client.
func (r *ConnRequest) Peer() PeerInfo { return peerInfo(r.uct.Source) }

// ListenerParams are the parameters of Worker.NewListener.
type ListenerParams struct {
	// Addr is the address to listen on: an address of this machine, or 0.0.0.0 or :: for
	// all of them. With port 0 the system chooses the port.
	Addr netip.AddrPort

	// ReuseAddr listens on a port that connections still use, or used until recently, as
	// package net does: the port of connections that the server closed first stays in use
	// for a minute, which would keep a restarted server from listening. It does not take
	// over the address of an open listener. The settings of C UCX for this,
	// UCX_TCP_CM_REUSEADDR and UCX_RDMA_CM_REUSEADDR, also work.
	ReuseAddr bool

	// OnConnRequest is called for each client that wants to connect. The client waits until
	// it is accepted (EndpointParams.ConnRequest), on any worker of the context, or
	// rejected.
	OnConnRequest func(*ConnRequest)

	// OnAccept is the alternative to OnConnRequest: each client is accepted on the listener's
	// worker, in the client's error mode, and OnAccept is called with its endpoint. The application
	// owns the endpoint and closes it.
	OnAccept func(*Endpoint)
}

// Listener accepts clients that connect by socket address. It belongs to its worker's
// goroutine.
type Listener struct {
	_ noCopy

	w      *Worker
	params ListenerParams
	addr   netip.AddrPort
	parts  []uct.Listener // one for each connection manager
	closed bool
}

// NewListener listens for clients. Exactly one of OnConnRequest and OnAccept must be set; both run
// inside progress. The error is ucs.ErrBusy if the address is in use, by another listener or by
// connections that have just ended (ReuseAddr), and ucs.ErrUnsupported if no transport of the
// context connects by socket address. WorkerParams.Accept is called for a client first.
func (w *Worker) NewListener(p ListenerParams) (*Listener, error) {
	if w.missing() {
		return nil, errMissing("Worker.NewListener", w == nil)
	}
	w.owner.acquire()
	l, err := w.conns.listen(&p)
	w.owner.release()
	return l, err
}

func (cs *connState) listen(p *ListenerParams) (*Listener, error) {
	w := cs.w
	if err := w.wrongListener(p); err != nil {
		return nil, err
	}
	l := &Listener{w: w, params: *p}
	list := cs.connManagers()
	err := l.open(list)
	// The port that the system has chosen for one manager may be in use at another.
	for range maxPorts {
		if p.Addr.Port() != 0 || !errors.Is(err, ucs.ErrBusy) {
			break
		}
		err = l.open(list)
	}
	if err != nil {
		return nil, err
	}
	cs.listeners = append(cs.listeners, l)
	return l, nil
}

// maxPorts is how many more times NewListener lets the system choose a port, after a port that is
// in use at another connection manager.
const maxPorts = 64

// open listens at one port by all connection managers that can. Each manager has a port space of
// its own, and clients try the managers in their order. If the port is in use at one manager, open
// listens at none and returns ucs.ErrBusy: otherwise clients could reach the other listener on that
// port.
func (l *Listener) open(list []manager) error {
	l.addr = l.params.Addr
	var first error
	for _, m := range list {
		if m.uct == nil {
			continue
		}
		part, err := m.uct.Listen(netip.AddrPortFrom(l.params.Addr.Addr(), l.addr.Port()), uct.ListenParams{
			Backlog:   l.w.ctx.settings.backlog(),
			ReuseAddr: l.params.ReuseAddr,
			Accept:    l.w.admission.accept(),
			OnRequest: func(_ uct.Listener, r *uct.ConnRequest) { l.onRequest(m.name, r) },
		})
		if errors.Is(err, ucs.ErrBusy) {
			l.closeParts()
			return err
		}
		if err != nil {
			if first == nil {
				first = err
			}
			continue
		}
		l.parts = append(l.parts, part)
		l.addr = part.Addr()
	}
	switch {
	case len(l.parts) > 0:
		return nil
	case first != nil:
		return first
	}
	return errNoManager(list)
}

// Addr returns the address that the listener listens on, with the actual port. Any
// goroutine may call it.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// Reject rejects a client: its endpoint fails with ucs.ErrRejected. If the request was
// accepted or rejected before, Reject gives ucs.ErrInvalidParam. Any goroutine may call it.
func (l *Listener) Reject(r *ConnRequest) error { return r.Reject() }

// Close stops listening. Clients that were not accepted are rejected; endpoints that were
// accepted go on. A second Close does nothing.
func (l *Listener) Close() error {
	if l.missing() {
		return errMissing("Listener.Close", l == nil)
	}
	l.w.owner.acquire()
	err := l.close()
	l.w.owner.release()
	return err
}

func (l *Listener) close() (first error) {
	if l.closed {
		return nil
	}
	l.closed = true
	c := &l.w.conns
	c.listeners = slices.DeleteFunc(c.listeners, func(o *Listener) bool { return o == l })
	return l.closeParts()
}

func (l *Listener) closeParts() (first error) {
	for _, part := range l.parts {
		if err := part.Close(); err != nil && first == nil {
			first = err
		}
	}
	l.parts = nil
	return first
}

// onRequest handles a client's connection request that a connection manager has received.
func (l *Listener) onRequest(manager string, r *uct.ConnRequest) {
	d, err := l.w.conns.parseConn(r.Private, r.RemoteDeviceAddr)
	if err != nil {
		l.notAccepted(r, ledger.Malformed, err)
		r.Reject()
		return
	}
	req := &ConnRequest{ctx: l.w.ctx, manager: manager, uct: r, data: d}
	if l.params.OnConnRequest != nil {
		l.w.run(func() { l.params.OnConnRequest(req) })
		return
	}
	ep, err := l.w.wireups.makeEndpoint(&EndpointParams{ConnRequest: req, ErrMode: min(ErrMode(d.ErrMode), ErrModePeer)})
	if err != nil {
		l.notAccepted(r, ledger.Connections, err)
		return
	}
	l.w.run(func() { l.params.OnAccept(ep) })
}

// notAccepted counts a client that gets no endpoint. Any process can cause such refusals at any
// rate, so at most one a minute is logged.
func (l *Listener) notAccepted(r *uct.ConnRequest, reason ledger.Reason, err error) {
	a := ledger.Open(ledger.SourceOf(r.Source.Addr.Addr(), -1))
	defer a.Close()
	if a.Refuse(reason) {
		l.w.ctx.log.Diag("client not accepted (further ones may not be logged)", zap.Stringer("from", r.Source.Addr), zap.Error(err))
	}
}
