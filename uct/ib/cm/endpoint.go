//go:build linux

package cm

import (
	"errors"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/internal/connkit"
)

// step is what an endpoint in phase Opening waits for.
type step uint8

const (
	findAddress step = iota // state of a client, as the next two
	findRoute
	awaitAnswer

	awaitNotify // state of a server
)

// endpoint implements uct.ConnEndpoint.
type endpoint struct {
	connkit.Endpoint
	connkit.Route
	m          *manager
	id         *rdmacm.ID
	number     *number // nil: none yet
	step       step
	gone       bool    // the ID and the number are closed
	device     *device // nil until it is known
	port       int
	timeLeft   time.Duration // time left for finding the address of the server
	tryTimeout time.Duration // timeout of the next try to find the address
	leaving    *event.Timer  // timer until a closed endpoint closes its ID; nil: none
}

var _ uct.ConnEndpoint = (*endpoint)(nil)

// errEnd is the cause of a failure if the peer has disconnected.
var errEnd = errors.New("ended by the peer")

// handle handles an event of the kernel about the endpoint.
func (ep *endpoint) handle(e *rdmacm.Event) {
	err := e.Err()
	switch e.Type {
	case rdmacm.EventAddrError:
		if ep.findAgain(err) {
			return
		}
	case rdmacm.EventAddrResolved, rdmacm.EventRouteResolved, rdmacm.EventConnectResponse, rdmacm.EventEstablished:
		if err == nil && ep.Phase != connkit.Closed {
			ep.proceed(e)
			return
		}
	case rdmacm.EventTimewaitExit, rdmacm.EventAddrChange:
		// The connection goes on with another hardware address. If it does not, an event of
		// the peer's end or of the device's removal follows.
		return
	case rdmacm.EventDeviceRemoval:
		ep.release() // the kernel waits until the ID is closed
		ep.m.c.devices.removed(ep.device)
	case rdmacm.EventDisconnected:
		if ep.Phase == connkit.Opening && ep.step == awaitNotify {
			// Only a connected client disconnects, so the client is connected although its
			// notification comes later, or is lost.
			ep.Succeed(uct.ConnectedArgs{})
		}
		if ep.Phase == connkit.Connected && ep.Disconnecting {
			ep.Fail(nil) // the disconnect that Disconnect asked for
			return
		}
		err = errEnd
	}
	if ep.Phase == connkit.Closed {
		ep.leave()
		return
	}
	if err == nil || ep.Phase == connkit.Over {
		return
	}
	if ep.Phase == connkit.Connected {
		err = ep.broken("connection of", err, ucs.ErrConnectionReset)
	} else {
		err = ep.broken("connect", err, ep.statusOf(e))
	}
	if worthLogging(e.Type) {
		ep.m.LogFailure(err)
	}
	ep.Fail(err)
}

// proceed takes the next step of the handshake, if the event is the one that the step waits for.
func (ep *endpoint) proceed(e *rdmacm.Event) {
	if ep.Phase != connkit.Opening {
		return
	}
	switch {
	case ep.step == findAddress && e.Type == rdmacm.EventAddrResolved:
		ep.route()
	case ep.step == findRoute && e.Type == rdmacm.EventRouteResolved:
		ep.sendRequest()
	case ep.step == awaitAnswer && e.Type == rdmacm.EventConnectResponse:
		ep.answered(e)
	case ep.step == awaitNotify && e.Type == rdmacm.EventEstablished:
		ep.Succeed(uct.ConnectedArgs{})
	}
}

// Ending implements connkit.Conn. An endpoint that was connected keeps its ID until the application
// closes the endpoint, so that the peer learns when that happens.
func (ep *endpoint) Ending(_ error, was connkit.Phase) {
	if was == connkit.Opening {
		ep.release()
	}
}

// release closes the ID and the queue pair number of the endpoint.
func (ep *endpoint) release() {
	if ep.gone {
		return
	}
	ep.gone = true
	ep.id.Close() // an error is ignored: a device that is gone has closed the ID already
	ep.number.close()
}

// Notify implements uct.ConnEndpoint.
func (ep *endpoint) Notify() error {
	if err := ep.BeginNotify(); err != nil {
		return err
	}
	if err := ep.id.Establish(); err != nil {
		ep.FailLater(ep.broken("notify", err, ucs.ErrConnectionReset))
	}
	return nil
}

// Disconnect implements uct.ConnEndpoint.
func (ep *endpoint) Disconnect() error {
	first, err := ep.BeginDisconnect(!ep.gone)
	if err != nil || !first {
		return err
	}
	connected := ep.Phase == connkit.Connected
	if ep.Client && !ep.Notified {
		// The handshake is not complete: the kernel cannot disconnect yet, and will not report the
		// end of a connection.
		err := ep.id.Reject(rejection)
		if connected {
			ep.FailLater(ep.unlessGone(err))
		}
		return nil
	}
	if err := ep.id.Disconnect(); err != nil && connected {
		ep.FailLater(ep.unlessGone(err))
	}
	return nil
}

// unlessGone returns the error to report for a failed disconnect; nil if the connection has
// ended already.
func (ep *endpoint) unlessGone(err error) error {
	if err == nil || errors.Is(err, ucs.ErrNotConnected) || errors.Is(err, ucs.ErrInvalidParam) {
		return nil // the connection has ended already
	}
	return ep.broken("disconnect", err, ucs.ErrConnectionReset)
}

// Close implements uct.ConnEndpoint.
func (ep *endpoint) Close() {
	was := ep.BeginClose()
	if was == connkit.Closed {
		return
	}
	ep.Unregister()
	if was != connkit.Opening || ep.step != awaitNotify || !ep.drain() {
		ep.leave()
	}
}

// A server that has answered and closes at once sends its disconnect right behind the answer. The
// client's kernel may process both packets at the same time. It then drops the disconnect, because
// it knows no connection for it yet, and the client does not learn that the server has closed. So
// the ID stays open for lingerTime, longer than the client takes to process both packets, or until
// the client's notification arrives.
const (
	lingerTime   = 250 * time.Millisecond
	maxLingering = 1 << 10 // largest number of closed endpoints of a manager with an open ID
)

// drain starts a timer that calls leave after lingerTime, and reports whether it could. It cannot
// if maxLingering endpoints wait already, or if the timer cannot be started.
func (ep *endpoint) drain() bool {
	m := ep.m
	if len(m.leaving) >= maxLingering {
		return false
	}
	var err error
	if ep.leaving, err = m.Worker.Timers().After(lingerTime, ep.leave); err != nil {
		return false
	}
	m.leaving[ep] = struct{}{}
	return true
}

// leave stops the timer and closes the ID.
func (ep *endpoint) leave() {
	if ep.leaving != nil {
		ep.leaving.Stop()
		ep.leaving = nil
		delete(ep.m.leaving, ep)
	}
	ep.release()
}
