package ucttest_test

import (
	"fmt"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// TestNewcomer checks the guide for adding a transport: this file and a line that registers the
// transport are enough. The suite requires no more than the transport announces.
func TestNewcomer(t *testing.T) {
	for _, c := range uct.Components() {
		if c.Name() == "newcomer" {
			ucttest.Run(t, ucttest.Fixture{Component: c, Loopback: true})
			return
		}
	}
	t.Error("not registered")
}

// The line that registers it.
func init() { uct.Register(newcomer{}) }

// newcomer is a transport of buffered messages from an iface to itself, with room for a few.
type newcomer struct{}

func (newcomer) Name() string              { return "newcomer" }
func (newcomer) Flags() uct.ComponentFlags { return 0 }
func (newcomer) Transports() []string      { return []string{"newcomer"} }
func (newcomer) MemoryDomains(*config.Set) ([]uct.MDResource, error) {
	return []uct.MDResource{{Name: "newcomer"}}, nil
}
func (newcomer) OpenMD(name string, _ *config.Set) (uct.MemoryDomain, error) {
	if name != "newcomer" {
		return nil, ucs.ErrNoDevice
	}
	return &newDomain{attr: uct.MDAttr{Component: "newcomer", Name: "newcomer"}}, nil
}

// newDomain is a domain that cannot register memory.
type newDomain struct{ attr uct.MDAttr }

func (d *newDomain) Attr() *uct.MDAttr { return &d.attr }
func (d *newDomain) Resources() ([]uct.Resource, error) {
	return []uct.Resource{{Transport: "newcomer", Device: "here", Type: uct.DeviceSelf, SysDevice: -1}}, nil
}
func (d *newDomain) Alloc(uct.AllocParams) (uct.MemHandle, error) { return nil, ucs.ErrUnsupported }
func (d *newDomain) Register([]byte, uct.Access) (uct.MemHandle, error) {
	return nil, ucs.ErrUnsupported
}
func (d *newDomain) Deregister(uct.MemHandle) error { return ucs.ErrInvalidParam }
func (d *newDomain) AppendKey(b []byte, _ uct.MemHandle) ([]byte, error) {
	return b, ucs.ErrUnsupported
}
func (d *newDomain) UnpackRkey([]byte) (*uct.Rkey, error) { return nil, ucs.ErrUnsupported }
func (d *newDomain) RkeyPtr(*uct.Rkey, uint64, int) ([]byte, error) {
	return nil, ucs.ErrUnsupported
}
func (d *newDomain) ReleaseRkey(*uct.Rkey) error { return nil }
func (d *newDomain) Close() error                { return nil }

func (d *newDomain) OpenIface(w *uct.Worker, p uct.IfaceParams, _ *config.Set) (uct.Iface, error) {
	r, _ := d.Resources()
	if p.Transport != r[0].Transport || p.Device != r[0].Device {
		return nil, ucs.ErrNoDevice
	}
	i := &newIface{w: w, attr: uct.IfaceAttr{
		Resource:     r[0],
		Flags:        uct.IfaceAMBcopy | uct.IfacePending | uct.IfaceConnectToIface | uct.IfaceCBSync,
		AM:           uct.AMLimits{MaxBcopy: newSize},
		IfaceAddrLen: 16,
		MaxEndpoints: uct.Unlimited,
		NumPaths:     1,
		Perf:         uct.Perf{BandwidthDedicated: 1 << 30},
	}}
	i.addr = fmt.Appendf(nil, "%016p", i)[:16]
	i.handlers.Init(nil)
	w.AddProgress(i)
	return i, nil
}

const (
	newSize   = 1024
	newPlaces = 8
)

// newIface keeps messages until it is progressed.
type newIface struct {
	w        *uct.Worker
	attr     uct.IfaceAttr
	addr     []byte
	handlers kit.Handlers
	waiting  kit.Arbiter

	first, count int
	places       [newPlaces]struct {
		id  uct.AMID
		n   int
		buf [newSize]byte
	}
}

func (i *newIface) Attr() *uct.IfaceAttr                            { return &i.attr }
func (i *newIface) DeviceAddress() []byte                           { return nil }
func (i *newIface) Address() []byte                                 { return i.addr }
func (i *newIface) SetAMHandler(id uct.AMID, h uct.AMHandler) error { return i.handlers.Set(id, h) }

func (i *newIface) Reachable(p uct.ReachableParams) error {
	if string(p.IfaceAddr) != string(i.addr) {
		return ucs.ErrUnreachable
	}
	return nil
}

func (i *newIface) NewEndpoint(p uct.EndpointParams) (uct.Endpoint, error) {
	if err := i.Reachable(uct.ReachableParams{IfaceAddr: p.IfaceAddr}); err != nil {
		return nil, err
	}
	if p.PathIndex != 0 {
		return nil, ucs.ErrInvalidParam
	}
	return &newEndpoint{i: i}, nil
}

// Progress implements uct.Progressor.
func (i *newIface) Progress() int {
	n := i.count
	for range n {
		m := &i.places[i.first]
		i.handlers.Deliver(nil, m.id, m.buf[:m.n], nil)
		i.first = (i.first + 1) % newPlaces
		i.count--
	}
	return n + i.waiting.Dispatch()
}

// Arm implements uct.Progressor.
func (i *newIface) Arm(uct.EventFlags) error {
	if i.count > 0 || !i.waiting.Empty() {
		return ucs.ErrBusy
	}
	return nil
}

func (i *newIface) Close() error {
	i.w.RemoveProgress(i)
	return nil
}

// newEndpoint sends to its own iface.
type newEndpoint struct {
	uct.NoAM
	i       *newIface
	pending kit.Queue
	closed  bool
}

// Room implements kit.Sender.
func (e *newEndpoint) Room() kit.Room {
	if e.i.count == newPlaces {
		return kit.Exhausted
	}
	return kit.Open
}

func (e *newEndpoint) ready() error {
	switch {
	case e.closed:
		return ucs.ErrNotConnected
	case e.pending.Blocks():
		return ucs.ErrNoResource
	}
	return nil
}

func (e *newEndpoint) AMBcopy(id uct.AMID, p uct.Packer, _ uct.SendFlags, _ *uct.Completion) (int, error) {
	if err := e.ready(); err != nil {
		return 0, err
	}
	if id >= uct.MaxAMIDs {
		return 0, kit.ErrAMID(id)
	}
	if e.Room() != kit.Open {
		return 0, ucs.ErrNoResource
	}
	m := &e.i.places[(e.i.first+e.i.count)%newPlaces]
	m.id, m.n = id, p.Pack(m.buf[:])
	e.i.count++
	return m.n, nil
}

func (e *newEndpoint) Flush(flags uct.FlushFlags, _ *uct.Completion) error {
	if flags&uct.FlushCancel != 0 {
		e.Close()
		return nil
	}
	return e.ready()
}

func (e *newEndpoint) Fence() error { return e.ready() }

func (e *newEndpoint) Check(*uct.Completion) error { return ucs.ErrUnsupported }

func (e *newEndpoint) PendingAdd(p *uct.Pending) error {
	if e.closed || e.pending.Empty() && e.Room() == kit.Open {
		return ucs.ErrBusy
	}
	e.i.waiting.Add(&e.pending, e, p)
	return nil
}

func (e *newEndpoint) PendingPurge(fn func(*uct.Pending)) { e.i.waiting.Purge(&e.pending, fn) }

func (e *newEndpoint) Close() {
	e.closed = true
	e.i.waiting.Leave(&e.pending)
}
