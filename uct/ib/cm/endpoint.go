//go:build linux

package cm

import (
	"errors"
	"net/netip"
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
)

// phase is the state of an endpoint as the application knows it.
type phase uint8

const (
	opening   phase = iota // the application waits for the result
	connected              // the application was told of the connection
	over                   // the application was told of the end
	closed                 // the application has closed the endpoint
)

// step is what an endpoint in phase opening waits for.
type step uint8

const (
	findAddress step = iota // client, as the next two
	findRoute
	awaitAnswer

	awaitNotify // server
)

// endpoint implements uct.ConnEndpoint.
type endpoint struct {
	m             *manager
	id            *rdmacm.ID
	number        *number // nil: none yet
	phase         phase
	step          step
	client        bool
	notified      bool  // of a client: Notify was called
	disconnecting bool  // Disconnect was called
	gone          bool  // the ID and the number are closed
	err           error // for the next Progress to report
	local, remote netip.AddrPort
	device        *device // nil until it is known
	port          int
	left          time.Duration // left for finding the address of the server
	patience      time.Duration // timeout of the next try to find the address
	leaving       *event.Timer  // until a closed endpoint closes its ID; nil: none

	pack   func(uct.PackArgs, []byte) (int, error)
	opened func(*endpoint, error, answer) // called at the end of phase opening
	ended  func(uct.ConnEndpoint, error)
}

// answer is the server's address and its private data.
type answer struct {
	deviceAddr []byte
	private    []byte
}

var _ uct.ConnEndpoint = (*endpoint)(nil)

// errEnd is the cause of an end if the peer has disconnected.
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
		if err == nil && ep.phase != closed {
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
		if ep.phase == opening && ep.step == awaitNotify {
			// Only a connected client disconnects: its notification comes later, or is lost.
			ep.succeed(answer{})
		}
		if ep.phase == connected && ep.disconnecting {
			ep.fail(nil) // the end that Disconnect asked for
			return
		}
		err = errEnd
	}
	if ep.phase == closed {
		ep.leave()
		return
	}
	if err == nil || ep.phase >= over {
		return
	}
	if remarkable(e.Type) {
		ep.m.w.Log().Write(ep.m.opts.failure, "connection of the RDMA connection manager failed", zap.Error(err),
			zap.Stringer("local", ep.local), zap.Stringer("remote", ep.remote))
	}
	if ep.phase == connected {
		ep.fail(ep.broken("connection of", err, ucs.ErrConnectionReset))
		return
	}
	ep.fail(ep.broken("connect", err, ep.statusOf(e)))
}

// proceed takes the next step of the handshake, if the event is the one that the step waits for.
func (ep *endpoint) proceed(e *rdmacm.Event) {
	if ep.phase != opening {
		return
	}
	switch {
	case ep.step == findAddress && e.Type == rdmacm.EventAddrResolved:
		ep.route()
	case ep.step == findRoute && e.Type == rdmacm.EventRouteResolved:
		ep.ask()
	case ep.step == awaitAnswer && e.Type == rdmacm.EventConnectResponse:
		ep.answered(e)
	case ep.step == awaitNotify && e.Type == rdmacm.EventEstablished:
		ep.succeed(answer{})
	}
}

// succeed tells the application that the endpoint is connected.
func (ep *endpoint) succeed(a answer) {
	ep.become(connected)
	ep.opened(ep, nil, a)
}

// fail tells the application of the end. An endpoint that was connected keeps its ID until the
// application closes the endpoint, so that the peer learns when that happens.
func (ep *endpoint) fail(err error) {
	was := ep.phase
	if was >= over {
		return
	}
	ep.become(over)
	if was == opening {
		ep.release()
		ep.opened(ep, err, answer{})
	} else if ep.ended != nil {
		ep.ended(ep, err)
	}
}

// failLater has the next Progress call fail. It is for errors inside a call of the application,
// because callbacks run inside Progress.
func (ep *endpoint) failLater(err error) {
	ep.err = err
	ep.m.failed = append(ep.m.failed, ep)
}

func (ep *endpoint) become(p phase) {
	if ep.client && ep.phase == opening {
		ep.m.dialing--
	}
	ep.phase = p
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
	switch {
	case !ep.client:
		return errNotClient
	case ep.phase != connected || ep.disconnecting:
		return errNoLink
	case ep.notified:
		return errTwice
	}
	ep.notified = true
	if err := ep.id.Establish(); err != nil {
		ep.failLater(ep.broken("notify", err, ucs.ErrConnectionReset))
	}
	return nil
}

// Disconnect implements uct.ConnEndpoint.
func (ep *endpoint) Disconnect() error {
	switch {
	case ep.phase == opening:
		return errNotYet
	case ep.phase == closed || ep.gone:
		return errNoLink
	case ep.disconnecting:
		return nil
	}
	ep.disconnecting = true
	if ep.client && !ep.notified {
		// There is no connection to end yet, and the kernel will report no end of one.
		err := ep.id.Reject(rejection)
		if ep.phase == connected {
			ep.failLater(ep.unlessGone(err))
		}
		return nil
	}
	if err := ep.id.Disconnect(); err != nil && ep.phase == connected {
		ep.failLater(ep.unlessGone(err))
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

// LocalAddr implements uct.ConnEndpoint.
func (ep *endpoint) LocalAddr() netip.AddrPort { return ep.local }

// RemoteAddr implements uct.ConnEndpoint.
func (ep *endpoint) RemoteAddr() netip.AddrPort { return ep.remote }

// Close implements uct.ConnEndpoint.
func (ep *endpoint) Close() {
	if ep.phase == closed {
		return
	}
	unsure := ep.phase == opening && ep.step == awaitNotify
	ep.become(closed)
	if unsure && ep.drain() {
		return
	}
	ep.leave()
}

// A server that has answered and closes at once sends its disconnect right behind the answer.
// The client's kernel may process both packets at the same time. It then drops the second,
// because it knows no connection for it yet, and the client is never told of the end. So the
// ID stays open for longer than the client takes to process both, or until the client's
// notification arrives.
const (
	lingerTime = 250 * time.Millisecond
	mostLinger = 1 << 10 // closed endpoints of a manager with an open ID
)

// drain has leave called after lingerTime. It reports whether it could: not beyond mostLinger
// endpoints, and not if the timer cannot be started.
func (ep *endpoint) drain() bool {
	m := ep.m
	if m.leaving >= mostLinger {
		return false
	}
	var err error
	if ep.leaving, err = m.w.Timers().After(lingerTime, ep.leave); err != nil {
		return false
	}
	m.leaving++
	return true
}

// leave stops the timer, closes the ID, and removes the endpoint from its manager.
func (ep *endpoint) leave() {
	if ep.leaving != nil {
		ep.leaving.Stop()
		ep.leaving = nil
		ep.m.leaving--
	}
	ep.release()
	delete(ep.m.endpoints, ep)
}
