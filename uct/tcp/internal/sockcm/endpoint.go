//go:build linux

package sockcm

import (
	"errors"
	"fmt"
	"net/netip"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// phase is what the application knows of an endpoint.
type phase uint8

const (
	opening   phase = iota // it waits to be told
	connected              // it was told that all is well
	over                   // it was told of the end
	closed                 // it has closed the endpoint
)

// endpoint implements uct.ConnEndpoint.
type endpoint struct {
	link
	m             *manager
	phase         phase
	client        bool
	disconnecting bool // the application has said that it sends no more
	shut          bool // and the kernel was told
	watched       event.Events
	err           error // for the next Progress to report

	pack   func(uct.PackArgs, []byte) (int, error)
	opened func(*endpoint, error, message) // tells the end of opening
	ended  func(uct.ConnEndpoint, error)
}

var _ uct.ConnEndpoint = (*endpoint)(nil)

// Accept implements uct.ConnManager.
func (m *manager) Accept(r *uct.ConnRequest, p uct.AcceptParams) (uct.ConnEndpoint, error) {
	if m.w == nil {
		return nil, errClosed
	}
	q, ok := r.Owner.(*request)
	if !ok {
		return nil, errForeign
	}
	if err := q.take(); err != nil {
		return nil, err
	}
	if n := len(p.Private); n > m.opts.private {
		q.turnAway()
		return nil, tooLong(n, m.opts.private)
	}
	ep := &endpoint{m: m, link: q.link, ended: p.OnDisconnected}
	ep.opened = func(ep *endpoint, err error, _ message) {
		if p.OnNotify != nil {
			p.OnNotify(ep, err)
		}
	}
	if err := m.w.Events().Add(ep.fd, event.Read, ep); err != nil {
		q.turnAway()
		return nil, err
	}
	ep.watched = event.Read
	m.endpoints[ep] = struct{}{}
	ep.answer(p.Private)
	ep.flush()
	return ep, nil
}

// HandleEvent goes on.
func (ep *endpoint) HandleEvent(ev event.Events) {
	if ep.state == connecting {
		ep.reached()
		return
	}
	if ev&^event.Write != 0 {
		ep.read()
	}
	if ev&event.Write != 0 && ep.phase < over {
		ep.write()
	}
}

// read goes on with what the peer says.
func (ep *endpoint) read() {
	msg, whole, err := ep.readMessage(ep.m.buf)
	switch {
	case err != nil && ep.phase == connected && ep.disconnecting && errors.Is(err, errEnd):
		ep.fail(nil) // as it was wanted
	case err != nil:
		ep.fail(err)
	case whole && msg.status != ucs.OK:
		ep.fail(ep.broken("read", fmt.Errorf("the peer reports: %w", msg.status)))
	case whole:
		ep.succeed(msg)
	}
}

// write writes, inside of Progress.
func (ep *endpoint) write() {
	if err := ep.proceed(); err != nil {
		ep.fail(err)
	}
}

// flush writes, in a call of the application. Errors are for Progress.
func (ep *endpoint) flush() {
	if err := ep.proceed(); err != nil {
		ep.failLater(err)
	}
}

// proceed writes what is to be said, and ends the way there if that is all.
func (ep *endpoint) proceed() error {
	if err := ep.tell(); err != nil {
		return err
	}
	ev := event.Read
	if len(ep.out) > 0 {
		ev |= event.Write
	} else if ep.disconnecting && !ep.shut {
		ep.shut = true
		unix.Shutdown(ep.fd, unix.SHUT_WR) // an error says that it is over already
	}
	return ep.watch(ev)
}

// watch sets what the event set reports.
func (ep *endpoint) watch(ev event.Events) error {
	set := ep.m.w.Events()
	was := ep.watched
	if ev == was {
		return nil
	}
	ep.watched = ev
	switch {
	case was == 0:
		return set.Add(ep.fd, ev, ep)
	case ev == 0:
		return set.Remove(ep.fd)
	}
	return set.Modify(ep.fd, ev)
}

// succeed tells the application that the endpoint is connected.
func (ep *endpoint) succeed(msg message) {
	ep.become(connected)
	ep.opened(ep, nil, msg)
}

// fail tells the application of the end. The socket of a connection stays open until the
// application has closed the endpoint, for the peer to know when that is.
func (ep *endpoint) fail(err error) {
	was := ep.phase
	if was >= over {
		return
	}
	ep.become(over)
	ep.watch(0)
	if remarkable(err) {
		ep.m.w.Log().Write(ep.m.opts.failure, "connection of the connection manager failed", zap.Error(err))
	}
	if was == opening {
		ep.link.close()
		ep.opened(ep, err, message{})
	} else if ep.ended != nil {
		ep.ended(ep, err)
	}
}

// failLater is fail for a call of the application.
func (ep *endpoint) failLater(err error) {
	if ep.err == nil {
		ep.err = err
		ep.m.failed = append(ep.m.failed, ep)
	}
}

func (ep *endpoint) become(p phase) {
	if ep.client && ep.phase == opening {
		ep.m.dialing--
	}
	ep.phase = p
}

// Notify implements uct.ConnEndpoint.
func (ep *endpoint) Notify() error {
	switch {
	case !ep.client:
		return errNotClient
	case ep.phase != connected || ep.disconnecting:
		return errNoLink
	case ep.state != answered:
		return errTwice
	}
	ep.notify()
	ep.flush()
	return nil
}

// Disconnect implements uct.ConnEndpoint.
func (ep *endpoint) Disconnect() error {
	switch {
	case ep.phase == opening:
		return errNotYet
	case ep.phase == closed || ep.fd < 0:
		return errNoLink
	case ep.disconnecting:
		return nil
	}
	ep.disconnecting = true
	if ep.phase == over {
		unix.Shutdown(ep.fd, unix.SHUT_WR)
		return nil
	}
	ep.flush()
	return nil
}

// LocalAddr implements uct.ConnEndpoint.
func (ep *endpoint) LocalAddr() netip.AddrPort { return ep.local }

// RemoteAddr implements uct.ConnEndpoint.
func (ep *endpoint) RemoteAddr() netip.AddrPort { return ep.remote }

// Close implements uct.ConnEndpoint.
func (ep *endpoint) Close() {
	if ep.phase == closed {
		return
	}
	ep.watch(0)
	ep.become(closed)
	ep.link.close()
	delete(ep.m.endpoints, ep)
}
