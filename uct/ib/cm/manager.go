//go:build linux

package cm

import (
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
)

// eventBatch bounds the events handled in one round.
const eventBatch = 64

// manager implements uct.ConnManager.
type manager struct {
	w    *uct.Worker // nil: closed
	c    *component
	opts options
	attr uct.ConnManagerAttr
	ch   *rdmacm.EventChannel

	listeners map[*listener]struct{}
	endpoints map[*endpoint]struct{}
	failed    []*endpoint // failed outside of Progress; the next Progress reports it
	dialing   int         // client endpoints in phase opening
	leaving   int         // closed endpoints whose ID is still open
	look      bool        // read the channel even if its descriptor is not readable
}

var _ interface {
	uct.ConnManager
	uct.Progressor
	uct.Armer
} = (*manager)(nil)

// openManager opens a manager on a worker.
func openManager(c *component, w *uct.Worker, opts options) (*manager, error) {
	ch, err := c.source.Channel()
	if err != nil {
		return nil, err
	}
	m := &manager{
		w: w, c: c, opts: opts, ch: ch,
		attr:      uct.ConnManagerAttr{Component: componentName, MaxPrivate: maxPrivate},
		listeners: make(map[*listener]struct{}),
		endpoints: make(map[*endpoint]struct{}),
	}
	if err := w.Events().Add(ch.FD(), event.Read, m); err != nil {
		return nil, errors.Join(err, ch.Close())
	}
	c.devices.retain()
	w.AddProgress(m)
	return m, nil
}

// Attr implements uct.ConnManager.
func (m *manager) Attr() *uct.ConnManagerAttr { return &m.attr }

// Progress implements uct.Progressor. Events of the kernel arrive through the event set of the
// worker. Progress polls the event set itself only while a client endpoint is being connected.
func (m *manager) Progress() int {
	n := 0
	if m.look {
		m.look = false
		n = m.read()
	}
	if len(m.failed) > 0 {
		list := m.failed
		m.failed = nil
		for _, ep := range list {
			ep.fail(ep.err)
		}
		n += len(list)
	}
	if m.dialing > 0 {
		n += m.w.AwaitEvents()
	}
	return n
}

// Arm implements uct.Armer.
func (m *manager) Arm() error {
	if m.look || len(m.failed) > 0 {
		return errBusy
	}
	return nil
}

// HandleEvent implements event.Handler.
func (m *manager) HandleEvent(event.Events) { m.read() }

// read handles at most eventBatch events of the kernel, and returns their number. If more are
// pending, the descriptor stays readable.
func (m *manager) read() (n int) {
	for ; n < eventBatch && m.w != nil; n++ {
		e, err := m.ch.PollEvent()
		if errors.Is(err, ucs.ErrNoMessage) {
			break
		}
		if err != nil {
			m.w.Log().Diag("cannot read events of the RDMA connection manager for now", zap.Error(err))
			break
		}
		m.handle(e)
	}
	return n
}

// handle passes an event to the listener or endpoint that it is about. No event is about a
// waiting request: the kernel reports none of an ID until it is accepted.
func (m *manager) handle(e *rdmacm.Event) {
	if e.Type == rdmacm.EventConnectRequest {
		l, ok := e.Listener.Context.(*listener)
		if !ok {
			e.ID.Close()
			return
		}
		l.welcome(e)
		return
	}
	switch o := e.ID.Context.(type) {
	case *endpoint:
		o.handle(e)
	case *listener:
		o.handle(e)
	}
}

// Close implements uct.ConnManager.
func (m *manager) Close() error {
	if m.w == nil {
		return nil
	}
	for l := range m.listeners {
		l.Close()
	}
	for ep := range m.endpoints {
		ep.Close()
		ep.leave()
	}
	m.w.Events().Remove(m.ch.FD())
	m.w.RemoveProgress(m)
	m.w = nil
	err := errors.Join(m.ch.Close(), m.c.devices.release())
	if err != nil {
		err = fmt.Errorf("rdmacm: closing the connection manager: %w", err)
	}
	return err
}
