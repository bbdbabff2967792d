package ucp

import (
	"errors"
	"net/netip"
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// ListenerParams are the parameters of Worker.NewListener.
type ListenerParams struct {
	// Addr is where to listen: an address of this machine, or 0.0.0.0 or :: for all of
	// them; with port 0 at a port that the system chooses.
	Addr netip.AddrPort

	// ReuseAddr listens at an address although connections to it have just ended, or go on,
	// as package net does: those that the server has closed first keep its port for a minute,
	// and a server that is started again would find it in use. The address of a listener that
	// is open is not taken. C UCX has the settings UCX_TCP_CM_REUSEADDR and
	// UCX_RDMA_CM_REUSEADDR for that, which work here, too.
	ReuseAddr bool

	// OnConnRequest is given each client that wants to connect, which waits until it is
	// accepted (EndpointParams.ConnRequest), on any worker of the context, or rejected.
	OnConnRequest func(*ConnRequest)

	// OnAccept, in its place, is given endpoints that have accepted for the listener's
	// worker, in the error mode of the client. They are the application's, to close.
	OnAccept func(*Endpoint)
}

// Listener is where clients connect to by socket address. It belongs to its worker's
// goroutine.
type Listener struct {
	_ noCopy

	w      *Worker
	params ListenerParams
	addr   netip.AddrPort
	parts  []uct.Listener // one of each connection manager
	closed bool
}

// NewListener listens for clients. Exactly one of the two functions must be given; they
// run inside progress. An address that somebody else listens at, or whose connections have
// just ended (ReuseAddr), gives ucs.ErrBusy, a context without a transport that connects
// by socket address ucs.ErrUnsupported. Clients are looked at by WorkerParams.Accept first.
func (w *Worker) NewListener(p ListenerParams) (*Listener, error) {
	if w.missing() {
		return nil, errMissing("Worker.NewListener", w == nil)
	}
	w.enter()
	l, err := w.listen(&p)
	w.exit()
	return l, err
}

func (w *Worker) listen(p *ListenerParams) (*Listener, error) {
	if err := w.wrongListener(p); err != nil {
		return nil, err
	}
	l := &Listener{w: w, params: *p}
	list := w.connManagers()
	err := l.open(list)
	// A port that one manager has chosen is another's to refuse.
	for range mostPorts {
		if p.Addr.Port() != 0 || !errors.Is(err, ucs.ErrBusy) {
			break
		}
		err = l.open(list)
	}
	if err != nil {
		return nil, err
	}
	w.conns.listeners = append(w.conns.listeners, l)
	return l, nil
}

// mostPorts is how many more of them are tried that the system chooses.
const mostPorts = 64

// open listens by all managers that can, at one port. Each has ports of its own, and
// clients try the managers in their order: where somebody else has the port at one of
// them nobody listens, as they would come to him.
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
			Accept:    l.w.accept(),
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

// Addr is where the listener listens, with the real port. Any goroutine may ask.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// Reject refuses a client: its endpoint fails with ucs.ErrRejected. A request that was
// accepted or rejected before gives ucs.ErrInvalidParam. Any goroutine may call it.
func (l *Listener) Reject(r *ConnRequest) error { return r.Reject() }

// Close ends it. Clients that nobody has accepted are rejected; endpoints that were
// accepted go on. A second Close does nothing.
func (l *Listener) Close() error {
	if l.missing() {
		return errMissing("Listener.Close", l == nil)
	}
	l.w.enter()
	err := l.close()
	l.w.exit()
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

// onRequest is given a client by a connection manager.
func (l *Listener) onRequest(manager string, r *uct.ConnRequest) {
	d, err := parseConn(r.Private, r.RemoteDeviceAddr)
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
	ep, err := l.w.makeEndpoint(&EndpointParams{ConnRequest: req, ErrMode: min(ErrMode(d.ErrMode), ErrModePeer)})
	if err != nil {
		l.notAccepted(r, ledger.Connections, err)
		return
	}
	l.w.run(func() { l.params.OnAccept(ep) })
}

// notAccepted counts a client that gets no endpoint. Anybody can be one as often as he
// likes: one of a minute is logged.
func (l *Listener) notAccepted(r *uct.ConnRequest, reason ledger.Reason, err error) {
	a := ledger.Open(ledger.SourceOf(r.Source.Addr.Addr(), -1))
	defer a.Close()
	if a.Refuse(reason) {
		l.w.ctx.log.Diag("client not accepted; there may be more, which are not logged", zap.Stringer("from", r.Source.Addr), zap.Error(err))
	}
}
