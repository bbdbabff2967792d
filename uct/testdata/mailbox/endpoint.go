package mailbox

import (
	"fmt"
	"slices"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

type endpoint struct {
	uct.NoAM
	uct.NoRMA
	i       *iface
	conn    *conn
	pending kit.Queue
	failed  error // why nothing is accepted any more
	closed  bool
	user    any
}

var _ interface {
	uct.Endpoint
	uct.RMA
	kit.Failing
	kit.Sender
} = (*endpoint)(nil)

func (i *iface) NewEndpoint(p uct.EndpointParams) (uct.Endpoint, error) {
	switch {
	case p.DeviceAddr == nil && p.IfaceAddr == nil, p.Over != nil:
		return nil, ucs.ErrUnsupported
	case p.PathIndex != 0:
		return nil, fmt.Errorf("mailbox: path %d of 1: %w", p.PathIndex, ucs.ErrInvalidParam)
	}
	to, err := find(p.IfaceAddr)
	if err != nil {
		return nil, err
	}
	c := &conn{from: &i.box, to: to}
	c.source.Owner = c
	to.mu.Lock()
	c.broken = to.closed
	if !to.closed {
		to.conns = append(to.conns, c)
	}
	to.mu.Unlock()
	e := &endpoint{i: i, conn: c, user: p.UserData}
	i.endpoints = append(i.endpoints, e)
	if c.broken {
		e.fail()
	}
	return e, nil
}

// ready returns nil if the endpoint accepts operations.
func (e *endpoint) ready() error {
	switch {
	case e.failed != nil:
		return e.failed
	case e.pending.Blocks():
		return ucs.ErrNoResource
	}
	return nil
}

// fail ends an endpoint whose connection is broken. Progress reports the failure.
func (e *endpoint) fail() {
	if e.failed == nil {
		e.failed = fmt.Errorf("mailbox: the receiver has dropped the connection or is closed: %w", ucs.ErrConnectionReset)
		e.i.waiting.Leave(&e.pending)
		e.i.failures.Add(&e.i.reporter, e, e.failed)
	}
}

// Over implements kit.Failing. No operation is in flight.
func (e *endpoint) Over(error) (userData any, report bool) { return e.user, !e.closed }

// Room implements kit.Sender.
func (e *endpoint) Room() kit.Room {
	if e.conn.to.hasRoom(nil) {
		return kit.Open
	}
	return kit.Full
}

// Flush implements uct.Endpoint. Every accepted operation is done.
func (e *endpoint) Flush(flags uct.FlushFlags, _ *uct.Completion) error {
	if flags&uct.FlushCancel != 0 {
		if e.failed == nil {
			e.failed = ucs.ErrCanceled
			e.i.waiting.Leave(&e.pending)
		}
		return nil
	}
	return e.ready()
}

func (e *endpoint) Fence() error { return e.ready() }

func (e *endpoint) Check(*uct.Completion) error {
	if err := e.ready(); err != nil {
		return err
	}
	e.conn.to.mu.Lock()
	broken := e.conn.broken
	e.conn.to.mu.Unlock()
	if broken {
		e.fail()
	}
	return e.failed
}

func (e *endpoint) PendingAdd(p *uct.Pending) error {
	if e.failed != nil || e.pending.Empty() && e.Room() == kit.Open {
		return ucs.ErrBusy // the caller then retries the operation, which returns the error
	}
	e.i.waiting.Add(&e.pending, e, p)
	return nil
}

func (e *endpoint) PendingPurge(fn func(*uct.Pending)) { e.i.waiting.Purge(&e.pending, fn) }

func (e *endpoint) Close() {
	if e.closed {
		return
	}
	e.closed = true
	if e.failed == nil {
		e.failed = ucs.ErrNotConnected
	}
	e.i.waiting.Leave(&e.pending)
	e.i.endpoints = slices.DeleteFunc(slices.Clone(e.i.endpoints), func(o *endpoint) bool { return o == e })
	to := e.conn.to
	to.mu.Lock()
	e.conn.ended = true
	to.mu.Unlock()
	to.signal()
}
