//go:build linux

package sockcm

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/connkit"
)

// endpoint implements uct.ConnEndpoint.
type endpoint struct {
	connkit.Endpoint
	link
	m       *manager
	shut    bool         // the write direction of the socket is shut down
	watched event.Events // what the event set reports for the socket
}

var _ uct.ConnEndpoint = (*endpoint)(nil)

// Accept implements uct.ConnManager.
func (m *manager) Accept(r *uct.ConnRequest, p uct.AcceptParams) (uct.ConnEndpoint, error) {
	c, err := m.Consume(r, &p)
	if err != nil {
		return nil, err
	}
	q := c.(*request)
	ep := &endpoint{m: m, link: q.link}
	ep.InitServer(&m.Manager, ep, &p)
	if err := m.Worker.Events().Add(ep.fd, event.Read, ep); err != nil {
		q.Reject()
		return nil, err
	}
	ep.watched = event.Read
	ep.Register()
	ep.answer(p.Private)
	ep.flush()
	return ep, nil
}

// HandleEvent implements event.Handler. It continues to connect, read or write.
func (ep *endpoint) HandleEvent(ev event.Events) {
	if ep.state == connecting {
		ep.reached()
		return
	}
	if ev&^event.Write != 0 {
		ep.read()
	}
	if ev&event.Write != 0 && ep.Phase < connkit.Over {
		ep.write()
	}
}

// read reads from the peer and handles a complete message or the end of the connection.
func (ep *endpoint) read() {
	msg, whole, err := ep.readMessage(ep.m.buf)
	switch {
	case err != nil && ep.Phase == connkit.Connected && ep.Disconnecting && errors.Is(err, errEnd):
		ep.Fail(nil) // the application has requested the end
	case err != nil:
		ep.Fail(err)
	case whole && msg.status != ucs.OK:
		ep.Fail(ep.broken("read", fmt.Errorf("the peer reports: %w", msg.status)))
	case whole && ep.Client:
		ep.Succeed(uct.ConnectedArgs{RemoteDeviceAddr: ep.m.host.DeviceAddr(ep.Remote.Addr()), Private: msg.private})
	case whole:
		ep.Succeed(uct.ConnectedArgs{})
	}
}

// write calls proceed inside Progress. An error ends the endpoint at once.
func (ep *endpoint) write() {
	if err := ep.proceed(); err != nil {
		ep.Fail(err)
	}
}

// flush calls proceed inside a call of the application. Progress reports an error later.
func (ep *endpoint) flush() {
	if err := ep.proceed(); err != nil {
		ep.FailLater(err)
	}
}

// proceed writes the queued bytes, and shuts down the write direction if the application has
// disconnected and all bytes are written.
func (ep *endpoint) proceed() error {
	if err := ep.writeQueued(); err != nil {
		return err
	}
	ev := event.Read
	if len(ep.out) > 0 {
		ev |= event.Write
	} else if ep.Disconnecting && !ep.shut {
		ep.shut = true
		unix.Shutdown(ep.fd, unix.SHUT_WR) // an error means that the connection has ended already
	}
	return ep.watch(ev)
}

// watch sets the events that the event set reports for the socket.
func (ep *endpoint) watch(ev event.Events) error {
	set := ep.m.Worker.Events()
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

// Ending implements connkit.Conn.
func (ep *endpoint) Ending(err error, was connkit.Phase) {
	ep.watch(0)
	if remarkable(err) {
		ep.m.LogFailure(err)
	}
	if was == connkit.Opening {
		ep.link.close()
	}
}

// Notify implements uct.ConnEndpoint.
func (ep *endpoint) Notify() error {
	if err := ep.BeginNotify(); err != nil {
		return err
	}
	ep.notify()
	ep.flush()
	return nil
}

// Disconnect implements uct.ConnEndpoint.
func (ep *endpoint) Disconnect() error {
	first, err := ep.BeginDisconnect(ep.fd >= 0)
	switch {
	case err != nil || !first:
		return err
	case ep.Phase == connkit.Over:
		unix.Shutdown(ep.fd, unix.SHUT_WR)
	default:
		ep.flush()
	}
	return nil
}

// Close implements uct.ConnEndpoint.
func (ep *endpoint) Close() {
	if ep.BeginClose() == connkit.Closed {
		return
	}
	ep.watch(0)
	ep.link.close()
	ep.Unregister()
}
