//go:build linux

package rdmacm

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct/ib/verbs"
)

// Config holds the options of Resolve and Listen. nil and the zero value are the defaults.
type Config struct {
	Source         netip.AddrPort // of Resolve: the local address; default: by the routing table
	TypeOfService  uint8          // of the packets of both sides, of Resolve
	AckTimeout     uint8          // of the queue pairs of this side: 4.096 µs · 2^n; default: from the route
	ResolveTimeout time.Duration  // of Resolve, for the address and again for the route; default 2 s
	Backlog        int            // of Listen: see ID.Listen
	// NewChannel makes the channels; default: NewEventChannel.
	NewChannel func() (*EventChannel, error)
}

const defaultResolveTimeout = 2 * time.Second

// newChannel makes a channel and an ID of PortSpaceTCP with the configured options. It closes both
// if init fails.
func (cfg *Config) newChannel(init func(*ID) error) (*EventChannel, *ID, error) {
	open := NewEventChannel
	if cfg.NewChannel != nil {
		open = cfg.NewChannel
	}
	ch, err := open()
	if err != nil {
		return nil, nil, err
	}
	id, err := ch.CreateID(PortSpaceTCP, verbs.RC)
	if err == nil && cfg.TypeOfService != 0 {
		err = id.SetTypeOfService(cfg.TypeOfService)
	}
	if err == nil && cfg.AckTimeout != 0 {
		err = id.SetAckTimeout(cfg.AckTimeout)
	}
	if err == nil {
		err = init(id)
	}
	if err != nil {
		ch.Close()
		return nil, nil, err
	}
	return ch, id, nil
}

// Conn is a reliable connection, established, or begun by Resolve or Listener.GetRequest. It has
// its own event channel, which Close releases; the queue pair remains the caller's. Only one
// goroutine at a time may use a Conn, except for Close.
type Conn struct {
	ch   *EventChannel
	id   *ID
	qp   *verbs.QP
	addr Addr
	peer ConnParam
	over bool // an event has reported the end
}

// Resolve finds the device and the path to an address: the first half of connecting. The
// second half is Conn.Connect with a queue pair of that device, see Conn.Addr.
func Resolve(ctx context.Context, dst netip.AddrPort, cfg *Config) (*Conn, error) {
	if cfg == nil {
		cfg = &Config{}
	}
	timeout := cfg.ResolveTimeout
	if timeout <= 0 {
		timeout = defaultResolveTimeout
	}
	c := &Conn{}
	var err error
	c.ch, c.id, err = cfg.newChannel(func(id *ID) error { return id.ResolveAddr(cfg.Source, dst, timeout) })
	if err != nil {
		return nil, err
	}
	if _, err = c.await(ctx, EventAddrResolved); err == nil {
		err = c.id.ResolveRoute(timeout)
	}
	if err == nil {
		_, err = c.await(ctx, EventRouteResolved)
	}
	if err == nil {
		c.addr, err = c.id.QueryAddr()
	}
	if err != nil {
		c.Close()
		return nil, fmt.Errorf("resolving %v: %w", dst, err)
	}
	return c, nil
}

// ID returns the connection's ID, for operations that Conn does not have: ID.InitQP, so that
// receives can be posted before Connect or Accept, options, routes.
func (c *Conn) ID() *ID { return c.id }

// Addr returns the addresses of the connection and its device, for Contexts.Open.
func (c *Conn) Addr() Addr { return c.addr }

// Peer returns the parameters that the peer has sent: in its request, or in its answer.
func (c *Conn) Peer() ConnParam { return c.peer }

// await waits for an event. Any other event is an error.
func (c *Conn) await(ctx context.Context, want EventType) (*Event, error) {
	for {
		e, err := c.ch.GetEvent(ctx)
		if err != nil {
			return nil, err
		}
		switch e.Type {
		case EventDisconnected:
			c.over = true
			c.id.Disconnect() // lets the peer's Disconnect return; an error means that this side had disconnected first
		case EventDeviceRemoval, EventRejected, EventUnreachable, EventConnectError:
			c.over = true
		case EventAddrChange, EventTimewaitExit:
			continue
		}
		if e.Type == want && (want == EventDisconnected || e.Err() == nil) {
			return e, nil
		}
		if err := e.Err(); err != nil {
			return nil, err
		}
		return nil, &EventError{Type: e.Type}
	}
}

// prepare takes a new queue pair to the state that Connect and Accept need.
func (c *Conn) prepare(qp *verbs.QP) error {
	c.qp = qp
	if qp.State() != verbs.QPReset {
		return nil
	}
	return c.id.InitQP(qp)
}

// Connect connects a queue pair, which is new or prepared by ID.InitQP, to the peer; a nil
// p is DefaultConnParam. p.QPN is ignored. Afterwards Peer returns the answer. If the peer
// refuses, the error is a *RejectedError. After an error, or when ctx has ended, only Close
// may follow.
func (c *Conn) Connect(ctx context.Context, qp *verbs.QP, p *ConnParam) error {
	if err := c.prepare(qp); err != nil {
		return err
	}
	param := DefaultConnParam()
	if p != nil {
		param = *p
	}
	param.QPN = qp.QPN()
	if err := c.id.Connect(&param); err != nil {
		return err
	}
	e, err := c.await(ctx, EventConnectResponse)
	if err != nil {
		return fmt.Errorf("connecting to %v: %w", c.addr.Dst, err)
	}
	c.peer = e.Conn
	// Limit the peer's answer to the requested numbers.
	param.ResponderResources = min(param.ResponderResources, e.Conn.ResponderResources)
	param.InitiatorDepth = min(param.InitiatorDepth, e.Conn.InitiatorDepth)
	if err := c.id.ConnectQP(qp, &param); err != nil {
		c.id.Reject(nil) // the peer waits; if Reject fails too, Close notifies the peer
		return err
	}
	return c.id.Establish()
}

// Accept connects a queue pair, which is new or prepared by ID.InitQP, to the requesting
// peer; a nil p is DefaultConnParam, with no more reads and atomics than the peer wants.
// p.QPN is ignored.
func (c *Conn) Accept(ctx context.Context, qp *verbs.QP, p *ConnParam) error {
	if err := c.prepare(qp); err != nil {
		return err
	}
	param := DefaultConnParam()
	if p != nil {
		param = *p
	} else {
		param.ResponderResources = min(param.ResponderResources, c.id.resources)
		param.InitiatorDepth = min(param.InitiatorDepth, c.id.depth)
	}
	param.QPN = qp.QPN()
	if err := c.id.ConnectQP(qp, &param); err != nil {
		return err
	}
	if err := c.id.Accept(&param); err != nil {
		return err
	}
	if _, err := c.await(ctx, EventEstablished); err != nil {
		return fmt.Errorf("accepting %v: %w", c.addr.Dst, err)
	}
	return nil
}

// Reject refuses the requesting peer, with data for it, and closes c unless it fails.
func (c *Conn) Reject(data []byte) error {
	if err := c.id.Reject(data); err != nil {
		return err
	}
	return c.Close()
}

// Wait waits until the peer ends the connection, and then returns nil. Requests that are
// posted here complete, as flushed, after Disconnect.
func (c *Conn) Wait(ctx context.Context) error {
	if c.over {
		return nil
	}
	_, err := c.await(ctx, EventDisconnected)
	return err
}

// Disconnect ends the connection: requests that are posted to the queue pair complete, as
// flushed if they have not completed before. It waits until the peer has confirmed, or has
// ended the connection itself; if the peer is gone this takes long, and ctx limits it.
func (c *Conn) Disconnect(ctx context.Context) error {
	if c.qp == nil {
		return fmt.Errorf("rdmacm: Disconnect: not connected: %w", ucs.ErrNotConnected)
	}
	if err := c.qp.Modify(&verbs.QPAttr{State: verbs.QPErr}, verbs.QPAttrState); err != nil {
		return err
	}
	if c.over {
		return nil
	}
	if err := c.id.Disconnect(); err != nil {
		return err
	}
	return c.Wait(ctx)
}

// Close ends the connection, if it has not ended, and the channel. It does not
// touch the queue pair and does not wait for the peer.
func (c *Conn) Close() error { return c.ch.Close() }

// Listener waits for peers that connect. Any goroutine may use it.
type Listener struct {
	cfg  Config
	ch   *EventChannel
	id   *ID
	addr netip.AddrPort
}

// Listen listens for peers at an address of a device, or at the unspecified address for all
// devices. Port 0 means any free port.
func Listen(addr netip.AddrPort, cfg *Config) (*Listener, error) {
	l := &Listener{}
	if cfg != nil {
		l.cfg = *cfg
	}
	var err error
	l.ch, l.id, err = l.cfg.newChannel(func(id *ID) error {
		if err := id.BindAddr(addr); err != nil {
			return err
		}
		if err := id.Listen(l.cfg.Backlog); err != nil {
			return err
		}
		l.addr, err = id.LocalAddr()
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("listening at %v: %w", addr, err)
	}
	return l, nil
}

// Addr returns the address that the listener listens on.
func (l *Listener) Addr() netip.AddrPort { return l.addr }

// GetRequest waits for the next peer; rdma_get_request. Conn.Peer returns its request. The
// Conn must be accepted, with a queue pair of its device, or rejected; Close without either
// refuses it too. If there is no room for another connection, the error is
// ucs.ErrNoResource or ucs.ErrNoMemory: that peer is refused, and the next call may
// succeed.
func (l *Listener) GetRequest(ctx context.Context) (*Conn, error) {
	for {
		e, err := l.ch.GetEvent(ctx)
		if err != nil {
			return nil, err
		}
		switch e.Type {
		case EventConnectRequest:
			return l.request(e)
		case EventDeviceRemoval:
			return nil, e.Err()
		}
	}
}

// request gives a connection its own channel.
func (l *Listener) request(e *Event) (*Conn, error) {
	open := NewEventChannel
	if l.cfg.NewChannel != nil {
		open = l.cfg.NewChannel
	}
	ch, err := open()
	if err != nil {
		e.ID.Close()
		return nil, err
	}
	c := &Conn{ch: ch, id: e.ID, peer: e.Conn}
	if err = e.ID.Migrate(ch); err != nil {
		e.ID.Close()
	}
	if err == nil && l.cfg.AckTimeout != 0 { // not inherited
		err = e.ID.SetAckTimeout(l.cfg.AckTimeout)
	}
	if err == nil {
		c.addr, err = e.ID.QueryAddr()
	}
	if err != nil {
		ch.Close()
		return nil, err
	}
	return c, nil
}

// Close stops listening. Connections stay.
func (l *Listener) Close() error { return l.ch.Close() }
