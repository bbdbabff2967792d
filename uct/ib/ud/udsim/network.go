//go:build linux

package udsim

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ud/internal/flow"
	"github.com/ucx-go/ucx/uct/ucttest/sim"
)

// Options describe a component.
type Options struct {
	Name    string
	Network *Network
	Medium  sim.Medium
	Locate  func() *sim.Place // the place of a domain that is being opened

	// Fate decides what becomes of a packet: it returns the delays of its copies in nanoseconds,
	// beyond that of the way. No delay means that the packet is lost. Nil: one copy without delay.
	Fate func(from, to *sim.Place) []uint64

	// Linger is how long a closed connection answers its peer; zero for the transport's default.
	Linger time.Duration

	// Claim is as in sim.Options.
	Claim func(at *sim.Place, r sim.Resource, n int) error
}

// Network connects interfaces. One goroutine at a time uses it.
type Network struct {
	ifaces map[uint32]*iface // by number of the queue pair
	order  []*iface          // in the order of their creation
	last   uint32            // number of the last queue pair

	// Packets counts the packets that interfaces have sent, Lost those without a copy, and Doubled
	// the further copies.
	Packets, Lost, Doubled uint64
}

// NewNetwork makes an empty network.
func NewNetwork() *Network { return &Network{ifaces: make(map[uint32]*iface), last: 1} }

// Touch rings the bells of the armed interfaces at a place that have something to do. The medium calls
// it at the times of Wake. It reports whether there are any.
func (n *Network) Touch(at *sim.Place) (work bool) {
	for _, i := range n.order {
		if i.place == at && i.hasWork() {
			work = true
			i.ring()
		}
	}
	return work
}

// Kill removes the interfaces at a place, whose process has ended.
func (n *Network) Kill(at *sim.Place) {
	for _, i := range slices.Clone(n.order) {
		if i.place == at {
			n.remove(i)
		}
	}
}

func (n *Network) remove(i *iface) {
	i.closed = true
	delete(n.ifaces, i.qpn)
	n.order = slices.DeleteFunc(n.order, func(o *iface) bool { return o == i })
}

// Counters returns the sums of the counters of all interfaces that exist.
func (n *Network) Counters() (resent, duplicates, ahead, dead uint64) {
	for _, i := range n.order {
		c := &i.flow.Counters
		resent += c.Resent
		duplicates += c.Duplicate
		ahead += c.Ahead
		dead += c.Dead
	}
	return resent, duplicates, ahead, dead
}

// component implements uct.Component.
type component struct{ o Options }

// New makes a component.
func New(o Options) uct.Component { return &component{o} }

// Name implements uct.Component.
func (c *component) Name() string { return c.o.Name }

// Flags implements uct.Component.
func (c *component) Flags() uct.ComponentFlags { return 0 }

// Transports implements uct.Component.
func (c *component) Transports() []string { return []string{c.o.Name} }

// MemoryDomains implements uct.Component.
func (c *component) MemoryDomains(*config.Set) ([]uct.MDResource, error) {
	return []uct.MDResource{{Name: c.o.Name}}, nil
}

// OpenMD implements uct.Component.
func (c *component) OpenMD(name string, _ *config.Set) (uct.MemoryDomain, error) {
	if name != c.o.Name {
		return nil, fmt.Errorf("udsim: no memory domain %q: %w", name, ucs.ErrNoDevice)
	}
	d := &domain{o: &c.o, place: c.o.Locate()}
	if err := d.claim(sim.Domains, 1); err != nil {
		return nil, err
	}
	return d, nil
}

// domain implements uct.MemoryDomain. Nothing accesses memory of peers.
type domain struct {
	o      *Options
	place  *sim.Place
	ifaces int
	closed bool
}

var _ uct.MemoryDomain = (*domain)(nil)

func (d *domain) claim(r sim.Resource, n int) error {
	if d.o.Claim == nil {
		return nil
	}
	return d.o.Claim(d.place, r, n)
}

// Attr implements uct.MemoryDomain.
func (d *domain) Attr() *uct.MDAttr {
	return &uct.MDAttr{Component: d.o.Name, Name: d.o.Name, MaxReg: math.MaxUint64}
}

// Resources implements uct.MemoryDomain.
func (d *domain) Resources() ([]uct.Resource, error) {
	return []uct.Resource{{Transport: d.o.Name, Device: d.o.Name + "0", Type: uct.DeviceNetwork, SysDevice: -1}}, nil
}

// OpenIface implements uct.MemoryDomain.
func (d *domain) OpenIface(w *uct.Worker, p uct.IfaceParams, _ *config.Set) (uct.Iface, error) {
	if p.Transport != d.o.Name || p.Device != d.o.Name+"0" {
		return nil, fmt.Errorf("udsim: no resource %s/%s: %w", p.Transport, p.Device, ucs.ErrNoDevice)
	}
	if err := d.claim(sim.Interfaces, 1); err != nil {
		return nil, err
	}
	i, err := openIface(d, w, p)
	if err != nil {
		d.claim(sim.Interfaces, -1)
		return nil, err
	}
	d.ifaces++
	return i, nil
}

// Alloc implements uct.MemoryDomain.
func (d *domain) Alloc(uct.AllocParams) (uct.MemHandle, error) { return nil, ucs.ErrUnsupported }

// Register implements uct.MemoryDomain.
func (d *domain) Register([]byte, uct.Access) (uct.MemHandle, error) { return nil, ucs.ErrUnsupported }

// Deregister implements uct.MemoryDomain.
func (d *domain) Deregister(uct.MemHandle) error { return ucs.ErrUnsupported }

// AppendKey implements uct.MemoryDomain.
func (d *domain) AppendKey(b []byte, _ uct.MemHandle) ([]byte, error) { return b, ucs.ErrUnsupported }

// UnpackRkey implements uct.MemoryDomain.
func (d *domain) UnpackRkey([]byte) (*uct.Rkey, error) { return nil, ucs.ErrUnsupported }

// RkeyPtr implements uct.MemoryDomain.
func (d *domain) RkeyPtr(*uct.Rkey, uint64, int) ([]byte, error) { return nil, ucs.ErrUnsupported }

// ReleaseRkey implements uct.MemoryDomain.
func (d *domain) ReleaseRkey(*uct.Rkey) error { return nil }

// Close implements uct.MemoryDomain.
func (d *domain) Close() error {
	if d.ifaces > 0 {
		return fmt.Errorf("udsim: closing a memory domain with %d interfaces: %w", d.ifaces, ucs.ErrBusy)
	}
	if !d.closed {
		d.closed = true
		d.claim(sim.Domains, -1)
	}
	return nil
}

// deviceAddr returns the device address of a place: its IP address, its process and its user.
func deviceAddr(at *sim.Place) []byte {
	ip := at.IP.As16()
	b := binary.LittleEndian.AppendUint32(ip[:], uint32(at.Process))
	return b
}

const deviceAddrLen = 20

// peerOf returns the peer at a device address and a queue pair.
func peerOf(dev []byte, qpn uint32, path uint8) flow.Peer {
	p := flow.Peer{QPN: qpn, Path: path}
	copy(p.Addr[:], dev)
	return p
}
