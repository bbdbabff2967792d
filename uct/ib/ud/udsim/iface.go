//go:build linux

package udsim

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/wire"
	"github.com/ucx-go/ucx/uct/kit"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

const (
	segment   = 4096 // largest packet, with its header
	queueLen  = 64   // packets that the send queue has room for
	sendTime  = 200  // time in ns for which a packet is in the send queue
	maxDatags = 32   // packets received in a round
)

// iface implements uct.Iface.
type iface struct {
	uct.BasicNetworkIface
	uct.BasicProcessIface
	d      *domain
	o      *Options
	place  *sim.Place
	worker *uct.Worker
	attr   uct.IfaceAttr
	qpn    uint32
	flow   *flow.Iface
	bell   *event.Bell
	armed  bool
	closed bool
	nested int // depth of progress

	inbox   []datagram // in the order of arrival
	sentAt  uint64     // time at which the send queue is empty
	resumed []*conn    // connections with late messages

	handlers  kit.Handlers
	waiting   kit.Arbiter
	failures  kit.Failures
	reporter  kit.Reporter
	endpoints int
	slots     []slot
	free      []int32
}

// datagram is a packet on its way.
type datagram struct {
	due  uint64
	from uint32
	data []byte
}

// slot holds a message, or the completion of a flush.
type slot struct {
	data []byte
	comp *uct.Completion
}

var _ interface {
	uct.Iface
	uct.NetworkIface
	uct.ProcessIface
	uct.Progressor
} = (*iface)(nil)

func openIface(d *domain, w *uct.Worker, p uct.IfaceParams) (*iface, error) {
	n := d.o.Network
	n.last++
	i := &iface{d: d, o: d.o, place: d.place, worker: w, qpn: n.last}
	i.handlers.Init(w.Log())
	i.reporter = kit.Reporter{OnError: p.OnError, Level: log.LevelDebug, Log: w.Log()}
	most := segment - wire.HeaderLen
	r, _ := d.Resources()
	i.attr = uct.IfaceAttr{
		Resource: r[0],
		Flags: uct.IfaceAMShort | uct.IfaceAMBcopy | uct.IfaceAMZcopy | uct.IfacePending | uct.IfaceErrHandlePeerFail |
			uct.IfaceEpCheck | uct.IfaceConnectToIface | uct.IfaceConnectToEP | uct.IfaceCBSync | uct.IfaceCBAsync |
			uct.IfaceInterNode,
		Events: uct.EventSendComp | uct.EventRecv | uct.EventFD,
		AM: uct.AMLimits{
			MaxShort: 200, MaxBcopy: most, MaxZcopy: most - 256, MaxZcopyHdr: 256, MaxIOV: 5, OptZcopyAlign: 1, AlignMTU: 1,
		},
		DeviceAddrLen: deviceAddrLen,
		IfaceAddrLen:  wire.IfaceAddrLen,
		EpAddrLen:     wire.EPAddrLen,
		MaxEndpoints:  uct.Unlimited,
		NumPaths:      1,
		Perf: uct.Perf{
			Overhead: 105e-9, SendOverhead: 100e-9, RecvOverhead: 100e-9, BandwidthDedicated: 10 << 30,
			Latency: uct.Linear{C: 2e-6},
		},
	}
	var err error
	i.flow, err = flow.NewIface(flow.Config{
		QPN: i.qpn, DevAddr: deviceAddr(i.place), Origin: wire.NewOrigin(i.place.IP.String(), int(i.place.Process)), Linger: i.o.Linger,
	}, port{i})
	if err != nil {
		return nil, fmt.Errorf("udsim: %w", err)
	}
	if i.bell, err = event.NewBell(w.Events(), waker{i}); err != nil {
		return nil, fmt.Errorf("udsim: %w", err)
	}
	n.ifaces[i.qpn] = i
	n.order = append(n.order, i)
	w.AddProgress(i)
	return i, nil
}

// waker handles the interface's wakeup event. Progress does the work.
type waker struct{ i *iface }

// HandleEvent implements event.Handler.
func (w waker) HandleEvent(event.Events) { w.i.bell.Clear() }

func (i *iface) ring() {
	if i.armed {
		i.armed = false
		i.bell.Ring()
	}
}

func (i *iface) now() uint64 { return i.o.Medium.Now() }

// Attr implements uct.Iface.
func (i *iface) Attr() *uct.IfaceAttr { return &i.attr }

// SetAMHandler implements uct.Iface.
func (i *iface) SetAMHandler(id uct.AMID, h uct.AMHandler) error { return i.handlers.Set(id, h) }

// DeviceAddress implements uct.Iface.
func (i *iface) DeviceAddress() []byte { return deviceAddr(i.place) }

// Address implements uct.Iface.
func (i *iface) Address() []byte { return wire.AppendIfaceAddr(nil, i.qpn) }

// Reachable implements uct.Iface.
func (i *iface) Reachable(p uct.ReachableParams) error {
	if _, err := wire.ParseIfaceAddr(p.IfaceAddr); err != nil || len(p.DeviceAddr) != deviceAddrLen {
		return fmt.Errorf("udsim: addresses %x and %x: %w", p.DeviceAddr, p.IfaceAddr, ucs.ErrUnreachable)
	}
	return nil
}

// PeerAddr implements uct.NetworkIface.
func (i *iface) PeerAddr(p uct.ReachableParams) (addr netip.AddrPort, here bool, err error) {
	if err := i.Reachable(p); err != nil {
		return addr, false, err
	}
	ip := netip.AddrFrom16([16]byte(p.DeviceAddr[:16])).Unmap()
	return netip.AddrPortFrom(ip, 0), ip == i.place.IP, nil
}

// FindProcess implements uct.ProcessIface: the processes of peers are not known.
func (i *iface) FindProcess(p uct.ReachableParams, _ func(uct.Process) bool) (uct.Process, error) {
	return 0, i.Reachable(p)
}

// SameLibrary implements uct.ProcessIface.
func (i *iface) SameLibrary(uct.ReachableParams) bool { return true }

// room reports whether the send queue has room.
func (i *iface) room() bool { return i.sentAt < i.now()+queueLen*sendTime }

// post sends a packet to a queue pair, on the path of its network.
func (i *iface) post(to uint32, data []byte) bool {
	n := i.o.Network
	now := i.now()
	if !i.room() {
		i.o.Medium.Wake(i.place, i.sentAt-(queueLen-8)*sendTime)
		return false
	}
	i.sentAt = max(i.sentAt, now) + sendTime
	n.Packets++
	peer := n.ifaces[to]
	if peer == nil {
		return true
	}
	delays := []uint64{0}
	if i.o.Fate != nil {
		delays = i.o.Fate(i.place, peer.place)
	}
	if len(delays) == 0 {
		n.Lost++
	}
	for k, d := range delays {
		due := i.o.Medium.Carry(i.place, peer.place, i.sentAt, len(data))
		if due == sim.Never {
			n.Lost++
			break
		}
		if k > 0 {
			n.Doubled++
		}
		peer.put(datagram{due + d, i.qpn, bytes.Clone(data)})
	}
	return true
}

// put puts a packet into the inbox, behind all that arrive no later.
func (i *iface) put(p datagram) {
	k := len(i.inbox)
	for k > 0 && i.inbox[k-1].due > p.due {
		k--
	}
	i.inbox = slices.Insert(i.inbox, k, p)
	i.o.Medium.Wake(i.place, p.due)
}

// hasWork reports whether a round of progress has something to do.
func (i *iface) hasWork() bool {
	if i.closed {
		return false
	}
	now := i.now()
	due, timed := i.flow.Soonest()
	return len(i.inbox) > 0 && i.inbox[0].due <= now || timed && due <= int64(now) || i.flow.Owed() && i.room() ||
		!i.waiting.All(kit.NoRoom) || !i.failures.Empty() || len(i.resumed) > 0
}

// watch makes the medium wake the interface when the state machine has to be called.
func (i *iface) watch() {
	if due, ok := i.flow.Soonest(); ok && !i.closed {
		i.o.Medium.Wake(i.place, uint64(due))
	}
}

// Progress implements uct.Progressor.
func (i *iface) Progress() (n int) {
	if i.nested > 0 {
		return 0
	}
	i.nested++
	defer func() { i.nested-- }()
	now := i.now()
	i.flow.Clock(int64(now))
	n += i.deliverLate()
	for k := 0; k < maxDatags && len(i.inbox) > 0 && i.inbox[0].due <= now && !i.closed; k++ {
		p := i.inbox[0]
		i.inbox[0] = datagram{}
		i.inbox = i.inbox[1:]
		n++
		if e, id, data := i.flow.Receive(p.data, &flow.From{QPN: p.from}); e != nil {
			e.User.(*conn).receive(uct.AMID(id), data)
		}
	}
	if due, ok := i.flow.Next(int64(now)); ok && due <= int64(now) {
		i.flow.Tick()
	}
	if i.flow.DispatchFirst() {
		n += i.waiting.Dispatch()
		i.flow.Dispatch()
	}
	if len(i.resumed) == 0 {
		n += i.failures.Report()
	}
	i.watch()
	return n
}

// deliverLate delivers the late messages of connections that are not paused any more.
func (i *iface) deliverLate() (n int) {
	list := i.resumed
	i.resumed = nil
	for _, c := range list {
		c.listed = false
		n += c.deliverLate()
	}
	return n
}

// Arm implements uct.Progressor.
func (i *iface) Arm(uct.EventFlags) error {
	if i.hasWork() {
		return ucs.ErrBusy
	}
	i.watch()
	i.armed = true
	return nil
}

// Close implements uct.Iface.
func (i *iface) Close() error {
	if i.endpoints > 0 {
		return fmt.Errorf("udsim: closing an interface with %d open endpoints: %w", i.endpoints, ucs.ErrBusy)
	}
	if i.closed {
		return nil
	}
	i.flow.NotifyEnd()
	i.o.Network.remove(i)
	i.flow.Close()
	i.worker.RemoveProgress(i)
	i.d.ifaces--
	i.d.claim(sim.Interfaces, -1)
	return i.bell.Close()
}

// take returns a free slot.
func (i *iface) take(c *uct.Completion) int32 {
	if n := len(i.free); n > 0 {
		s := i.free[n-1]
		i.free = i.free[:n-1]
		i.slots[s].comp = c
		return s
	}
	i.slots = append(i.slots, slot{comp: c})
	return int32(len(i.slots) - 1)
}

// port is the interface as the state machine uses it.
type port struct{ *iface }

var _ flow.Port = port{}

// Post implements flow.Port.
func (p port) Post(e *flow.Endpoint, pkt []byte, _ bool) bool { return p.post(e.PeerQPN(), pkt) }

// Repost implements flow.Port.
func (p port) Repost(e *flow.Endpoint, s int32, h wire.Header) bool {
	h.Store(p.slots[s].data)
	return p.post(e.PeerQPN(), p.slots[s].data)
}

// Busy implements flow.Port.
func (p port) Busy(*flow.Endpoint) bool { return false }

// Done implements flow.Port.
func (p port) Done(_ *flow.Endpoint, s int32, err error) {
	c := p.slots[s].comp
	p.slots[s].comp, p.slots[s].data = nil, p.slots[s].data[:0]
	p.iface.free = append(p.iface.free, s)
	if c != nil {
		c.Done(statusOf(err))
	}
}

// Resolve implements flow.Port.
func (p port) Resolve(dev []byte, qpn uint32, path uint8) (flow.Peer, bool) {
	return peerOf(dev, qpn, path), len(dev) == deviceAddrLen
}

// Accept implements flow.Port.
func (p port) Accept(e *flow.Endpoint, dev []byte) bool {
	if p.d.claim(sim.Endpoints, 1) != nil {
		return false
	}
	newConn(p.iface, e, dev)
	return true
}

// Connected implements flow.Port.
func (p port) Connected(*flow.Endpoint) {}

// Room implements flow.Port.
func (p port) Room(*flow.Endpoint) {}

// Failed implements flow.Port.
func (p port) Failed(e *flow.Endpoint, err error) {
	if ep := e.User.(*conn).ep; ep != nil {
		ep.fail(fmt.Errorf("udsim: %w", statusOf(err)))
	}
}

// Ended implements flow.Port.
func (p port) Ended(e *flow.Endpoint) {
	c := e.User.(*conn)
	c.ended = true
	c.settle()
}

// Gone implements flow.Port.
func (p port) Gone(e *flow.Endpoint) {
	c := e.User.(*conn)
	if c.over {
		return
	}
	c.over = true
	p.d.claim(sim.Endpoints, -1)
	c.settle()
}

func statusOf(err error) error {
	switch err {
	case flow.ErrTimeout:
		return ucs.ErrEndpointTimeout
	case flow.ErrReset:
		return ucs.ErrConnectionReset
	case flow.ErrClosed:
		return ucs.ErrCanceled
	}
	return err
}
