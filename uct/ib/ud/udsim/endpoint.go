//go:build linux

package udsim

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/kit"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// conn is the interface's part of an endpoint of the state machine.
type conn struct {
	uct.BasicSource
	uct.BasicConnection
	uct.Source
	i      *iface
	flow   *flow.Endpoint
	dev    []byte    // device address of the peer, nil while not connected
	ep     *endpoint // the application's endpoint; nil if the peer made the connection, or if closed
	ended  bool      // the peer sends no more messages
	over   bool      // the state machine has forgotten the connection
	paused bool
	listed bool // in iface.resumed
	late   []late
}

// late is a received message that waits for delivery.
type late struct {
	id   uct.AMID
	data []byte
}

var _ interface {
	uct.SourceOwner
	uct.Connection
} = (*conn)(nil)

func newConn(i *iface, f *flow.Endpoint, dev []byte) *conn {
	c := &conn{i: i, flow: f, dev: bytes.Clone(dev)}
	c.Owner = c
	f.User = c
	return c
}

// receive delivers a message, or keeps it while the connection is paused.
func (c *conn) receive(id uct.AMID, data []byte) {
	if c.paused || len(c.late) > 0 {
		c.late = append(c.late, late{id, bytes.Clone(data)})
		return
	}
	c.hand(id, data)
}

func (c *conn) hand(id uct.AMID, data []byte) {
	if err := c.i.handlers.Deliver(&c.Source, id, data, nil); err != nil {
		c.DropSource(err)
	}
}

// deliverLate delivers the late messages of a connection that is not paused.
func (c *conn) deliverLate() (n int) {
	for len(c.late) > 0 && !c.paused {
		m := c.late[0]
		c.late = c.late[1:]
		n++
		c.hand(m.id, m.data)
	}
	if !c.paused {
		c.flow.Resume()
		c.settle()
	}
	return n
}

// settle reports the end of the connection when all messages are delivered.
func (c *conn) settle() {
	if !c.ended && !c.over || len(c.late) > 0 {
		return
	}
	c.Source.Gone()
	if c.flow.Passive() {
		c.flow.Forget()
	}
}

// DropSource implements uct.SourceOwner.
func (c *conn) DropSource(err error) {
	c.late = nil
	c.flow.Drop(fmt.Errorf("udsim: dropped the connection: %w: %w", err, ucs.ErrConnectionReset))
	c.settle()
}

// SourceShared implements uct.SourceOwner.
func (c *conn) SourceShared() bool { return c.ep != nil }

// SourceError implements uct.SourceOwner.
func (c *conn) SourceError() error {
	if c.ep == nil || c.ep.failed == ucs.ErrCanceled {
		return nil
	}
	return c.ep.failed
}

// CheckSource implements uct.SourceOwner.
func (c *conn) CheckSource() {
	c.flow.Check()
	c.i.watch()
}

// SourceInfo implements uct.Connection.
func (c *conn) SourceInfo() uct.SourceInfo {
	info := uct.SourceInfo{User: uct.PeerUser{UID: -1, GID: -1, PID: -1}}
	if len(c.dev) == deviceAddrLen {
		ip := netip.AddrFrom16([16]byte(c.dev[:16])).Unmap()
		info.Addr, info.Local = netip.AddrPortFrom(ip, 0), ip == c.i.place.IP
	}
	return info
}

// PauseSource implements uct.Connection.
func (c *conn) PauseSource() {
	c.paused = true
	c.flow.Halt()
}

// ResumeSource implements uct.Connection.
func (c *conn) ResumeSource() {
	if c.paused {
		c.paused = false
		if !c.listed {
			c.listed = true
			c.i.resumed = append(c.i.resumed, c)
			c.i.o.Medium.Wake(c.i.place, 0)
		}
	}
}

// endpoint implements uct.Endpoint.
type endpoint struct {
	uct.BasicNetworkEndpoint
	i        *iface
	conn     *conn
	userData any
	pending  kit.Queue
	failed   error
	closed   bool
}

var _ interface {
	uct.Endpoint
	uct.Paired
	uct.NetworkEndpoint
	kit.Failing
	kit.Sender
} = (*endpoint)(nil)

// NewEndpoint implements uct.Iface.
func (i *iface) NewEndpoint(p uct.EndpointParams) (uct.Endpoint, error) {
	if p.Over != nil {
		return nil, ucs.ErrUnsupported
	}
	if p.PathIndex != 0 {
		return nil, fmt.Errorf("udsim: path %d of 1: %w", p.PathIndex, ucs.ErrInvalidParam)
	}
	paired := p.DeviceAddr == nil && p.IfaceAddr == nil
	if !paired {
		if err := i.Reachable(uct.ReachableParams{DeviceAddr: p.DeviceAddr, IfaceAddr: p.IfaceAddr}); err != nil {
			return nil, err
		}
	}
	if err := i.d.claim(sim.Endpoints, 1); err != nil {
		return nil, err
	}
	i.flow.Clock(int64(i.now()))
	var f *flow.Endpoint
	var err error
	if paired {
		f, err = i.flow.OpenPair()
	} else {
		qpn, _ := wire.ParseIfaceAddr(p.IfaceAddr)
		f, err = i.flow.Open(peerOf(p.DeviceAddr, qpn, 0))
	}
	if err != nil {
		i.d.claim(sim.Endpoints, -1)
		return nil, fmt.Errorf("udsim: %w: %w", err, ucs.ErrNoResource)
	}
	c, made := f.User.(*conn)
	if made { // by the peer's request: it has the resources already
		i.d.claim(sim.Endpoints, -1)
	} else {
		c = newConn(i, f, p.DeviceAddr)
	}
	e := &endpoint{i: i, conn: c, userData: p.UserData}
	c.ep = e
	i.endpoints++
	if i.nested == 0 {
		i.flow.DispatchFirst()
	}
	i.watch()
	return e, nil
}

// Address implements uct.Paired.
func (e *endpoint) Address() ([]byte, error) {
	return wire.AppendEPAddr(nil, e.i.qpn, e.conn.flow.ID()), nil
}

// ConnectToEP implements uct.Paired.
func (e *endpoint) ConnectToEP(dev, iface, ep []byte) error {
	if e.failed != nil {
		return e.failed
	}
	qpn, id, err := wire.ParseEPAddr(ep)
	if err != nil || len(dev) != deviceAddrLen {
		return fmt.Errorf("udsim: endpoint address %x: %w", ep, ucs.ErrInvalidAddr)
	}
	if q, err := wire.ParseIfaceAddr(iface); len(iface) != 0 && (err != nil || q != qpn) {
		return fmt.Errorf("udsim: the endpoint %x does not belong to the interface %x: %w", ep, iface, ucs.ErrInvalidAddr)
	}
	if err := e.conn.flow.ConnectPair(qpn, id); err != nil {
		return fmt.Errorf("udsim: the endpoint is connected already: %w", ucs.ErrInvalidParam)
	}
	e.conn.dev = bytes.Clone(dev)
	return nil
}

// IsConnectedTo implements uct.Paired.
func (e *endpoint) IsConnectedTo(dev, iface, ep []byte) bool {
	c := e.conn
	if c.dev == nil || !bytes.Equal(dev, c.dev) {
		return false
	}
	if len(iface) != 0 || ep == nil {
		if q, err := wire.ParseIfaceAddr(iface); err != nil || q != c.flow.PeerQPN() {
			return false
		}
	}
	if ep == nil {
		return true
	}
	q, id, err := wire.ParseEPAddr(ep)
	return err == nil && q == c.flow.PeerQPN() && c.flow.Connected() && id == c.flow.PeerID()
}

// Source implements uct.NetworkEndpoint.
func (e *endpoint) Source() *uct.Source {
	if !e.conn.flow.Connected() || e.failed != nil {
		return nil
	}
	return &e.conn.Source
}

// Room implements kit.Sender.
func (e *endpoint) Room() kit.Room {
	switch {
	case e.failed != nil || !e.conn.flow.CanSend():
		return kit.Full
	case !e.i.room():
		e.i.o.Medium.Wake(e.i.place, e.i.sentAt-(queueLen-8)*sendTime)
		return kit.Exhausted
	}
	return kit.Open
}

func (e *endpoint) admit() error {
	switch {
	case e.failed != nil:
		return e.failed
	case e.pending.Blocks() || e.Room() != kit.Open:
		return ucs.ErrNoResource
	}
	return nil
}

// begin takes a slot for a message whose bytes follow the header.
func (e *endpoint) begin(id uct.AMID, n int, c *uct.Completion) (int32, []byte, error) {
	if id >= uct.MaxAMIDs || n > segment-wire.HeaderLen {
		return 0, nil, fmt.Errorf("udsim: message %d of %d bytes: %w", id, n, ucs.ErrInvalidParam)
	}
	if err := e.admit(); err != nil {
		return 0, nil, err
	}
	s := e.i.take(c)
	return s, append(e.i.slots[s].data[:0], make([]byte, wire.HeaderLen)...), nil
}

// send sends the message in a slot.
func (e *endpoint) send(s int32, id uct.AMID, data []byte, ask bool) error {
	i := e.i
	if i.nested == 0 {
		i.flow.Clock(int64(i.now()))
	}
	i.slots[s].data = data
	h, ok := e.conn.flow.Send(s, uint8(id), i.flow.Large(len(data)), ask)
	if !ok {
		i.slots[s].comp, i.slots[s].data = nil, data[:0]
		i.free = append(i.free, s)
		return ucs.ErrNoResource
	}
	h.Store(data)
	i.post(e.conn.flow.PeerQPN(), data)
	i.watch()
	return nil
}

// AMShort implements uct.Endpoint.
func (e *endpoint) AMShort(id uct.AMID, header uint64, payload []byte, _ uct.SendFlags, _ *uct.Completion) error {
	s, b, err := e.begin(id, 8+len(payload), nil)
	if err != nil {
		return err
	}
	b = binary.LittleEndian.AppendUint64(b, header)
	return e.send(s, id, append(b, payload...), false)
}

// AMShortIOV implements uct.Endpoint.
func (e *endpoint) AMShortIOV(id uct.AMID, iov []uct.IOV, _ uct.SendFlags, _ *uct.Completion) error {
	s, b, err := e.begin(id, uct.IOVLen(iov), nil)
	if err != nil {
		return err
	}
	for k := range iov {
		b = append(b, iov[k].Data...)
	}
	return e.send(s, id, b, false)
}

// AMBcopy implements uct.Endpoint.
func (e *endpoint) AMBcopy(id uct.AMID, p uct.Packer, _ uct.SendFlags, _ *uct.Completion) (int, error) {
	s, b, err := e.begin(id, 0, nil)
	if err != nil {
		return 0, err
	}
	b = append(b, make([]byte, e.i.attr.AM.MaxBcopy)...)
	n := p.Pack(b[wire.HeaderLen:])
	return n, e.send(s, id, b[:wire.HeaderLen+n], false)
}

// AMZcopy implements uct.Endpoint. The message is copied, and completes when it is acknowledged.
func (e *endpoint) AMZcopy(id uct.AMID, hdr uct.Packer, iov []uct.IOV, _ uct.SendFlags, c *uct.Completion) error {
	if n := uct.IOVLen(iov); n > e.i.attr.AM.MaxZcopy || len(iov) > e.i.attr.AM.MaxIOV {
		return fmt.Errorf("udsim: %d bytes in %d pieces: %w", n, len(iov), ucs.ErrInvalidParam)
	}
	s, b, err := e.begin(id, 0, c)
	if err != nil {
		return err
	}
	if hdr != nil {
		b = append(b, make([]byte, e.i.attr.AM.MaxZcopyHdr)...)
		b = b[:wire.HeaderLen+hdr.Pack(b[wire.HeaderLen:])]
	}
	for k := range iov {
		b = append(b, iov[k].Data...)
	}
	if err := e.send(s, id, b, true); err != nil {
		return err
	}
	return ucs.InProgress
}

// PendingAdd implements uct.Endpoint.
func (e *endpoint) PendingAdd(p *uct.Pending) error {
	if e.failed != nil || e.pending.Empty() && e.Room() == kit.Open {
		return ucs.ErrBusy
	}
	e.i.waiting.Add(&e.pending, e, p)
	return nil
}

// PendingPurge implements uct.Endpoint.
func (e *endpoint) PendingPurge(fn func(*uct.Pending)) { e.i.waiting.Purge(&e.pending, fn) }

// Fence implements uct.Endpoint.
func (e *endpoint) Fence() error { return e.failed }

// Flush implements uct.Endpoint.
func (e *endpoint) Flush(flags uct.FlushFlags, c *uct.Completion) error {
	i := e.i
	switch {
	case flags&uct.FlushCancel != 0:
		if e.failed == nil {
			e.stop(ucs.ErrCanceled)
			e.takeBack()
		}
		return nil
	case e.failed != nil:
		return e.failed
	case e.pending.Blocks():
		return ucs.ErrNoResource
	}
	s := i.take(c)
	if !e.conn.flow.Flush(s) {
		i.watch()
		return ucs.InProgress
	}
	i.slots[s].comp = nil
	i.free = append(i.free, s)
	return nil
}

// Check implements uct.Endpoint.
func (e *endpoint) Check(*uct.Completion) error {
	if e.failed != nil {
		return e.failed
	}
	e.conn.flow.Check()
	e.i.watch()
	return nil
}

// stop makes the endpoint refuse all further operations.
func (e *endpoint) stop(err error) {
	e.failed = err
	e.i.waiting.Leave(&e.pending)
}

// fail is called when the state machine has failed the connection.
func (e *endpoint) fail(err error) {
	if e.failed == nil {
		e.stop(err)
		e.i.failures.Add(&e.i.reporter, e, err)
		e.i.o.Medium.Wake(e.i.place, 0)
	}
}

// Over implements kit.Failing. Messages that the peer has sent are delivered before the failure.
func (e *endpoint) Over(error) (userData any, report bool) {
	e.conn.paused = false
	e.conn.deliverLate()
	e.conn.Source.Gone()
	return e.userData, !e.closed
}

// takeBack ends the completions of messages in flight. The messages still arrive.
func (e *endpoint) takeBack() {
	var list []*uct.Completion
	for s := range e.conn.flow.Slots {
		if c := e.i.slots[s].comp; c != nil {
			e.i.slots[s].comp = nil
			list = append(list, c)
		}
	}
	for _, c := range list {
		c.Done(ucs.ErrCanceled)
	}
}

// Close implements uct.Endpoint.
func (e *endpoint) Close() {
	if e.closed {
		return
	}
	e.closed = true
	i, c := e.i, e.conn
	i.endpoints--
	if e.failed == nil {
		e.stop(ucs.ErrCanceled)
	}
	e.takeBack()
	c.ep = nil
	c.flow.Close()
	if i.nested == 0 {
		i.flow.Dispatch()
	}
	i.watch()
}
