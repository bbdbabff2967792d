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

// phase is what the application knows of an endpoint.
type phase uint8

const (
	opening   phase = iota // it waits to be told
	connected              // it was told that all is well
	over                   // it was told of the end
	closed                 // it has closed the endpoint
)

// step is what an endpoint that is opening waits for.
type step uint8

const (
	findAddress step = iota // of the client
	findRoute
	awaitAnswer

	awaitNotify // of the server
)

// endpoint implements uct.ConnEndpoint.
type endpoint struct {
	m             *manager
	id            *rdmacm.ID
	number        *number // nil: none yet
	phase         phase
	step          step
	client        bool
	notified      bool  // the server was
	disconnecting bool  // the application has said that it sends no more
	gone          bool  // the ID is closed: it has never been connected
	err           error // for the next Progress to report
	local, remote netip.AddrPort
	device        *device // once it is known
	port          int
	left          time.Duration // of the time to find the server in
	patience      time.Duration // of the next try
	leaving       *event.Timer  // of one that is closed, but for its ID

	pack   func(uct.PackArgs, []byte) (int, error)
	opened func(*endpoint, error, answer) // tells the end of opening
	ended  func(uct.ConnEndpoint, error)
}

// answer is what a server has said.
type answer struct {
	deviceAddr []byte
	private    []byte
}

var _ uct.ConnEndpoint = (*endpoint)(nil)

// errEnd is the end as the peer wants it.
var errEnd = errors.New("ended by the peer")

// handle goes on with what the kernel tells.
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
		// The connection goes on with another address of the hardware, and if it does
		// not, the peer's end or that of the device is told.
		return
	case rdmacm.EventDeviceRemoval:
		ep.release() // the kernel waits for it
		ep.m.c.devices.removed(ep.device)
	case rdmacm.EventDisconnected:
		if ep.phase == opening && ep.step == awaitNotify {
			// Only who is connected says so: its notification comes later, or is lost.
			ep.succeed(answer{})
		}
		if ep.phase == connected && ep.disconnecting {
			ep.fail(nil) // as it was wanted
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

// proceed takes the next step, if it is the one that follows.
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

// fail tells the application of the end. A connection keeps its ID until the application
// has closed the endpoint, for the peer to know when that is.
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

// failLater is fail for a call of the application.
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

// release gives back what the endpoint has of the kernel.
func (ep *endpoint) release() {
	if ep.gone {
		return
	}
	ep.gone = true
	ep.id.Close() // a device that is gone has taken it along
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
		// There is no connection to end yet, and nothing will be told of one.
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

// unlessGone is the error of saying that the connection ends.
func (ep *endpoint) unlessGone(err error) error {
	if err == nil || errors.Is(err, ucs.ErrNotConnected) || errors.Is(err, ucs.ErrInvalidParam) {
		return nil // it has ended already
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

// A server that has answered and goes at once says so in a packet right behind the
// answer. The client's kernel may look at the two at the same time, knows no connection
// yet that the second is about, and drops it, and the client is never told. So the ID
// stays open for a while longer than both take, or until the client has notified us.
const (
	lingerTime = 250 * time.Millisecond
	mostLinger = 1 << 10
)

// drain has the endpoint leave later, if it can.
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

// leave gives back everything.
func (ep *endpoint) leave() {
	if ep.leaving != nil {
		ep.leaving.Stop()
		ep.leaving = nil
		ep.m.leaving--
	}
	ep.release()
	delete(ep.m.endpoints, ep)
}
