package sim

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/connkit"
)

// This file and conn.go are a connection manager on a network with a Medium, with the types of
// package connkit as the real ones. The messages of a manager are functions that run in the progress
// of the receiving manager when they have arrived. All of it runs on one goroutine at a time.

// ConnOptions describe the connection manager of a component.
type ConnOptions struct {
	// MaxPrivate is the number of bytes of private data in each direction; 0 is 256.
	MaxPrivate int

	// Early makes a client pack its request before it knows whether the server exists, as rdmacm
	// does; otherwise it packs when it is connected to the server's host.
	Early bool

	// Timeout is the time in nanoseconds after which a host that does not answer is given up.
	Timeout uint64

	// HostAt returns a place on the host with an address, nil if there is no such host.
	HostAt func(netip.Addr) *Place

	// Device is the name of the local device.
	Device string
}

// connManager implements uct.ConnManager.
type connManager struct {
	connkit.Manager
	o     *Options
	c     *ConnOptions
	place *Place
	bell  *event.Bell
	inbox []letter // in the order of arrival
	own   []*connListener
	conns []*connEndpoint
}

// letter is a message to a manager.
type letter struct {
	due  uint64
	from *Place
	link *connLink // nil for a timer
	open func()
}

// connLink is what the letters of one connection in one direction have in common.
type connLink struct{ lastDue uint64 }

var (
	_ uct.ConnManager = (*connManager)(nil)
	_ uct.Progressor  = (*connManager)(nil)
)

// OpenConnManager opens a connection manager of a component that New has made with a Medium.
func OpenConnManager(c uct.Component, w *uct.Worker, co ConnOptions) (uct.ConnManager, error) {
	o := c.(*component).o
	if co.MaxPrivate == 0 {
		co.MaxPrivate = 256
	}
	m := &connManager{o: &o, c: &co, place: o.Locate()}
	var err error
	if m.bell, err = event.NewBell(w.Events(), connWaker{m}); err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	m.Manager.Open(w, c, uct.ConnManagerAttr{Component: o.Name, MaxPrivate: co.MaxPrivate}, connkit.Settings{Failure: log.LevelDiag})
	w.AddProgress(m)
	n := o.Network
	n.managers = append(n.managers, m)
	if n.listeners == nil {
		n.listeners = make(map[netip.AddrPort]*connListener)
	}
	return m, nil
}

// Close implements uct.ConnManager.
func (m *connManager) Close() error {
	if m.Worker == nil {
		return nil
	}
	for _, l := range slices.Clone(m.own) {
		l.Close()
	}
	for _, ep := range slices.Clone(m.conns) {
		ep.Close()
	}
	m.CloseAll(m)
	m.leave()
	return m.bell.Close()
}

// leave removes the manager from its network. Clients whose requests it has not read learn of it.
func (m *connManager) leave() {
	n := m.o.Network
	n.managers = slices.DeleteFunc(n.managers, func(o *connManager) bool { return o == m })
	for _, other := range n.managers {
		for _, ep := range other.conns {
			if r := ep.request; r != nil && r.l.m == m && !r.arrived {
				ep.end(m.place)
			}
		}
	}
	m.inbox = nil
}

// connWaker handles the manager's wakeup event.
type connWaker struct{ m *connManager }

// HandleEvent implements event.Handler: it opens the letters that have arrived.
func (w connWaker) HandleEvent(event.Events) {
	m := w.m
	m.bell.Clear()
	for m.arrived() {
		l := m.inbox[0]
		m.inbox = m.inbox[1:]
		l.open()
		if m.Worker == nil {
			return
		}
	}
}

// arrived reports whether a letter has arrived.
func (m *connManager) arrived() bool {
	return m.Worker != nil && len(m.inbox) > 0 && m.inbox[0].due <= m.o.Medium.Now()
}

// put puts a letter into the inbox, behind all that arrive no later.
func (m *connManager) put(l letter) {
	k := len(m.inbox)
	for k > 0 && m.inbox[k-1].due > l.due {
		k--
	}
	m.inbox = slices.Insert(m.inbox, k, l)
	if l.due != Never {
		m.o.Medium.Wake(m.place, l.due)
	}
}

// after opens a letter of the manager to itself after a time.
func (m *connManager) after(d uint64, open func()) {
	m.put(letter{due: m.o.Medium.Now() + d, open: open})
}

// carry sends a letter from a place. A manager that is closed when the letter arrives does not open it.
func (m *connManager) carry(from *Place, link *connLink, at uint64, n int, open func()) (due uint64) {
	if m.Worker == nil {
		return 0
	}
	due = m.o.Medium.Carry(from, m.place, at, n)
	if due != Never {
		link.lastDue = max(link.lastDue, due)
		due = link.lastDue
	}
	m.put(letter{due, from, link, open})
	return due
}

// touchManagers rings the bells of managers at a place.
func (n *Network) touchManagers(at *Place) (work bool) {
	for _, m := range n.managers {
		if m.place == at && m.arrived() {
			work = true
			m.bell.Ring()
		}
	}
	return work
}

// killManagers ends the managers at a place whose process has ended. The kernel closes their
// connections.
func (n *Network) killManagers(at *Place) {
	for _, m := range slices.Clone(n.managers) {
		if m.place != at {
			continue
		}
		for _, l := range m.own {
			delete(n.listeners, l.at)
			for _, r := range l.waiting {
				r.client.end(m.place)
			}
			l.waiting = nil
		}
		for _, ep := range m.conns {
			ep.release()
		}
		m.own, m.conns, m.Worker = nil, nil, nil
		m.leave()
	}
}

// healManagers sends the letters that were held between two places.
func (n *Network) healManagers(between func(from, to *Place) bool, leaves func() uint64) {
	for _, m := range n.managers {
		k := len(m.inbox)
		for k > 0 && m.inbox[k-1].due == Never {
			k--
		}
		held := slices.Clone(m.inbox[k:])
		m.inbox = m.inbox[:k]
		for _, l := range held {
			if between(l.from, m.place) {
				m.carry(l.from, l.link, leaves(), 0, l.open)
			} else {
				m.put(l)
			}
		}
	}
}

// deviceAddr returns the device address of all ifaces of the network.
func (m *connManager) deviceAddr() []byte {
	return binary.LittleEndian.AppendUint64(nil, m.o.Network.id)
}

// local returns an unused local address.
func (m *connManager) local(port uint16) netip.AddrPort {
	if port == 0 {
		n := m.o.Network
		n.lastPort++
		port = 1<<15 + n.lastPort%(1<<14)
	}
	return netip.AddrPortFrom(m.place.IP, port)
}

// connListener implements uct.Listener.
type connListener struct {
	connkit.Listener
	m       *connManager
	at      netip.AddrPort // with the address of the host
	waiting []*connRequest // shown, and neither accepted nor rejected
	closed  bool
}

// Listen implements uct.ConnManager.
func (m *connManager) Listen(at netip.AddrPort, p uct.ListenParams) (uct.Listener, error) {
	l := &connListener{m: m}
	if err := l.Init(&m.Manager, at, p, 128); err != nil {
		return nil, err
	}
	if a := at.Addr(); !a.IsUnspecified() && a != m.place.IP {
		return nil, fmt.Errorf("sim: listen on %v: no address of this host: %w", at, ucs.ErrInvalidAddr)
	}
	n := m.o.Network
	addr := netip.AddrPortFrom(m.place.IP, at.Port())
	for at.Port() == 0 && (addr.Port() == 0 || n.listeners[addr] != nil) {
		addr = m.local(0)
	}
	if n.listeners[addr] != nil {
		return nil, fmt.Errorf("sim: listen on %v: the address is in use: %w", at, ucs.ErrBusy)
	}
	n.listeners[addr] = l
	m.own = append(m.own, l)
	if at.Addr().IsUnspecified() {
		l.Opened(l, netip.AddrPortFrom(at.Addr(), addr.Port()))
	} else {
		l.Opened(l, addr)
	}
	l.at = addr
	return l, nil
}

// Close implements uct.Listener.
func (l *connListener) Close() error {
	if l.closed {
		return nil
	}
	l.closed = true
	delete(l.m.o.Network.listeners, l.at)
	l.m.own = slices.DeleteFunc(l.m.own, func(o *connListener) bool { return o == l })
	l.Drop(l)
	return nil
}
