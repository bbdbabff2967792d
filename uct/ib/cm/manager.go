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
	"github.com/ucx-go/ucx/uct/internal/connkit"
)

// eventBatch bounds the events handled in one round.
const eventBatch = 64

// manager implements uct.ConnManager.
type manager struct {
	connkit.Manager
	c       *component
	opts    options
	ch      *rdmacm.EventChannel
	leaving map[*endpoint]struct{} // closed endpoints whose ID is still open
	look    bool                   // read the channel even if its descriptor is not readable
}

var _ interface {
	uct.ConnManager
	uct.Progressor
} = (*manager)(nil)

// openManager opens a manager on a worker.
func openManager(c *component, w *uct.Worker, opts options) (*manager, error) {
	ch, err := c.source.Channel()
	if err != nil {
		return nil, err
	}
	m := &manager{c: c, opts: opts, ch: ch, leaving: make(map[*endpoint]struct{})}
	m.Manager.Open(w, c, uct.ConnManagerAttr{Component: componentName, MaxPrivate: maxPrivate}, opts.common)
	if err := w.Events().Add(ch.FD(), event.Read, m); err != nil {
		return nil, errors.Join(err, ch.Close())
	}
	c.devices.retain()
	w.AddProgress(m)
	return m, nil
}

// Progress implements uct.Progressor. Events of the kernel arrive through the event set of the
// worker.
func (m *manager) Progress() int {
	n := 0
	if m.look {
		m.look = false
		n = m.read()
	}
	return n + m.Manager.Progress()
}

// Arm implements uct.Progressor.
func (m *manager) Arm(e uct.EventFlags) error {
	if m.look {
		return m.Busy
	}
	return m.Manager.Arm(e)
}

// HandleEvent implements event.Handler.
func (m *manager) HandleEvent(event.Events) { m.read() }

// read handles at most eventBatch events of the kernel, and returns their number. If more are
// pending, the descriptor stays readable.
func (m *manager) read() (n int) {
	for ; n < eventBatch && m.Worker != nil; n++ {
		e, err := m.ch.PollEvent()
		if errors.Is(err, ucs.ErrNoMessage) {
			break
		}
		if err != nil {
			m.Worker.Log().Diag("cannot read events of the RDMA connection manager, will retry", zap.Error(err))
			break
		}
		m.handle(e)
	}
	return n
}

// handle passes an event to the listener or endpoint that it is about. No event is about a waiting
// request, because the kernel reports none for an ID until it is accepted.
func (m *manager) handle(e *rdmacm.Event) {
	if e.Type == rdmacm.EventConnectRequest {
		l, ok := e.Listener.Context.(*listener)
		if !ok {
			e.ID.Close()
			return
		}
		l.handleRequest(e)
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
	if m.Worker == nil {
		return nil
	}
	m.Worker.Events().Remove(m.ch.FD())
	m.CloseAll(m)
	for ep := range m.leaving {
		ep.leave()
	}
	err := errors.Join(m.ch.Close(), m.c.devices.release())
	if err != nil {
		err = fmt.Errorf("rdmacm: closing the connection manager: %w", err)
	}
	return err
}
