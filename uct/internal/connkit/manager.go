package connkit

import (
	"fmt"
	"net/netip"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// Settings are the settings that all connection managers have, with C UCX's names and defaults
// (uct_cm_config_table).
type Settings struct {
	Failure   log.Level `ucx:"FAILURE" default:"DIAG" doc:"Log level of network errors of the connection manager."`
	ReuseAddr bool      `ucx:"REUSEADDR" default:"n" doc:"Allow listening on a port that existing or recently closed connections use (SO_REUSEADDR)."`
}

// Errors that calls of the application return. Manager.error puts the name of the component in
// front.
var (
	errBusy      = fmt.Errorf("connection manager: an event is waiting to be reported through a callback: %w", ucs.ErrBusy)
	errClosed    = fmt.Errorf("the connection manager is closed: %w", ucs.ErrInvalidParam)
	errForeign   = fmt.Errorf("connection manager: the request does not belong to the component: %w", ucs.ErrInvalidParam)
	errConsumed  = fmt.Errorf("connection manager: the request was accepted or rejected before: %w", ucs.ErrInvalidParam)
	errDropped   = fmt.Errorf("connection manager: the request ended with its listener: %w", ucs.ErrCanceled)
	errEvicted   = fmt.Errorf("connection manager: the request was dropped to make room for another source: %w", ucs.ErrCanceled)
	errNotYet    = fmt.Errorf("connection manager: the endpoint is not connected yet: %w", ucs.ErrBusy)
	errNoLink    = fmt.Errorf("connection manager: the endpoint is not connected: %w", ucs.ErrNotConnected)
	errNotClient = fmt.Errorf("connection manager: only the client's endpoint can notify: %w", ucs.ErrUnsupported)
	errTwice     = fmt.Errorf("connection manager: the server was notified before: %w", ucs.ErrInvalidParam)
)

// Manager is the base of a uct.ConnManager.
type Manager struct {
	Worker *uct.Worker // nil if the manager is closed
	Busy   error       // error that Arm returns while a failure waits to be reported

	component any
	attr      uct.ConnManagerAttr
	settings  Settings

	listeners map[uct.Listener]struct{}
	endpoints map[Conn]struct{}
	failed    []*Endpoint // failed outside of Progress; the next Progress reports them
	dialing   int         // number of client endpoints in phase Opening
}

// Open opens a manager. Managers with equal components accept each other's requests.
func (m *Manager) Open(w *uct.Worker, component any, attr uct.ConnManagerAttr, s Settings) {
	*m = Manager{
		Worker: w, component: component, attr: attr, settings: s,
		listeners: make(map[uct.Listener]struct{}), endpoints: make(map[Conn]struct{}),
	}
	m.Busy = m.error(errBusy)
}

// Attr implements uct.ConnManager.
func (m *Manager) Attr() *uct.ConnManagerAttr { return &m.attr }

// error puts the name of the component in front of an error.
func (m *Manager) error(err error) error { return fmt.Errorf("%s: %w", m.attr.Component, err) }

// tooLong returns the error for n bytes of private data, which exceed the limit.
func (m *Manager) tooLong(n int) error {
	return m.error(fmt.Errorf("connection manager: %d bytes of private data, the limit is %d: %w", n, m.attr.MaxPrivate, ucs.ErrExceedsLimit))
}

// CheckConnect checks the parameters of uct.ConnManager.Connect. The parameter from is the local
// address, which is not valid if the system chooses it.
func (m *Manager) CheckConnect(p *uct.ConnectParams, from netip.AddrPort) error {
	switch {
	case m.Worker == nil:
		return m.error(errClosed)
	case !p.Remote.IsValid() || p.OnConnected == nil:
		return m.error(fmt.Errorf("connect to %v: address or OnConnected is invalid: %w", p.Remote, ucs.ErrInvalidParam))
	case from.IsValid() && from.Addr().Unmap().Is4() != p.Remote.Addr().Unmap().Is4():
		return m.error(fmt.Errorf("connect to %v from %v, an address of another family: %w", p.Remote, from, ucs.ErrInvalidParam))
	}
	return nil
}

// Consume begins uct.ConnManager.Accept: it takes a request from its listener and returns the
// transport's side of the request. It rejects the client if the answer's private data is too long.
func (m *Manager) Consume(r *uct.ConnRequest, p *uct.AcceptParams) (Client, error) {
	if m.Worker == nil {
		return nil, m.error(errClosed)
	}
	q, ok := r.Owner.(*Request)
	if !ok || q.l.m.component != m.component {
		return nil, m.error(errForeign)
	}
	if err := q.take(); err != nil {
		return nil, err
	}
	if n := len(p.Private); n > m.attr.MaxPrivate {
		q.client.Reject()
		return nil, m.tooLong(n)
	}
	return q.client, nil
}

// Progress reports the failures that FailLater has stored, and polls the worker's event set while a
// client endpoint is being connected. Handlers of the event set do all other work.
func (m *Manager) Progress() int {
	list := m.failed
	m.failed = nil
	for _, ep := range list {
		ep.Fail(ep.err)
	}
	n := len(list)
	if m.dialing > 0 {
		n += m.Worker.AwaitEvents()
	}
	return n
}

// Arm implements uct.Progressor.
func (m *Manager) Arm(uct.EventFlags) error {
	if len(m.failed) > 0 {
		return m.Busy
	}
	return nil
}

// LogFailure logs the end of a connection on the level of the settings.
func (m *Manager) LogFailure(err error) {
	m.Worker.Log().Write(m.settings.Failure, "connection over the connection manager failed", zap.Error(err))
}

// CloseAll closes all listeners and endpoints, and then the manager. The parameter self is the
// transport's manager, which CloseAll removes from the worker.
func (m *Manager) CloseAll(self uct.Progressor) {
	for l := range m.listeners {
		l.Close()
	}
	for ep := range m.endpoints {
		ep.Close()
	}
	m.Worker.RemoveProgress(self)
	m.Worker = nil
}
