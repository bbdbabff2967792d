package sim

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// keyLen is the length of a packed key: the number of the domain.
const keyLen = 8

// domain is a memory domain: the memory that peers of its ifaces may access.
type domain struct {
	o      *Options
	id     uint64 // unique on the network; also the value of the domain's keys
	only   string // the only device of the domain, "" if it has all of the component
	attr   uct.MDAttr
	table  kit.Regions
	memory memory // the domain itself, or the scoped domain that contains it
	ifaces atomic.Int32

	mu        sync.Mutex
	allocated map[*kit.Region]struct{} // guarded by mu: regions that the domain has allocated
	closed    bool                     // guarded by mu
}

var (
	_ uct.MemoryDomain = (*domain)(nil)
	_ uct.DeviceMemory = valued{}
)

func newDomain(o *Options) *domain {
	host := []ucs.MemoryType{ucs.MemoryHost}
	d := &domain{o: o, id: o.Network.number(), attr: uct.MDAttr{
		Component:      o.Name,
		Name:           o.Name,
		Flags:          uct.MDFlagRegister | uct.MDFlagNeedRkey | uct.MDFlagAlloc,
		RegTypes:       host,
		AllocTypes:     host,
		AccessTypes:    host,
		MaxAlloc:       math.MaxUint64,
		MaxReg:         math.MaxUint64,
		RkeyPackedSize: keyLen,
	}}
	if o.Keyless {
		d.attr.Flags &^= uct.MDFlagNeedRkey
		d.attr.RkeyPackedSize = 0
	}
	d.memory = d
	if o.DomainAttr != nil {
		o.DomainAttr(&d.attr)
	}
	return d
}

// Attr implements uct.MemoryDomain.
func (d *domain) Attr() *uct.MDAttr { return &d.attr }

// Resources implements uct.MemoryDomain.
func (d *domain) Resources() (list []uct.Resource, err error) {
	for _, r := range d.devices {
		list = append(list, r)
	}
	return list, nil
}

// devices iterates over the domain's devices and their numbers.
func (d *domain) devices(yield func(int, uct.Resource) bool) {
	kind := uct.DeviceNetwork
	if d.o.NoSources {
		kind = uct.DeviceShared
	}
	for i := range d.o.Devices {
		r := uct.Resource{Transport: d.o.Name, Device: d.o.deviceName(i), Type: kind, SysDevice: -1}
		if (d.only == "" || d.only == r.Device) && !yield(i, r) {
			return
		}
	}
}

// OpenIface implements uct.MemoryDomain.
func (d *domain) OpenIface(w *uct.Worker, p uct.IfaceParams, _ *config.Set) (uct.Iface, error) {
	for dev, r := range d.devices {
		if r.Transport == p.Transport && r.Device == p.Device {
			if err := d.o.claim(Interfaces, 1); err != nil {
				return nil, err
			}
			i, err := openIface(d, w, r, dev, p)
			if err != nil {
				d.o.claim(Interfaces, -1)
			}
			if err == nil && d.o.Place != nil {
				return placed{iface: i}, nil
			}
			return i, err
		}
	}
	return nil, fmt.Errorf("sim: no resource %s/%s: %w", p.Transport, p.Device, ucs.ErrNoDevice)
}

// Alloc implements uct.MemoryDomain.
func (d *domain) Alloc(p uct.AllocParams) (uct.MemHandle, error) {
	if d.attr.Flags&uct.MDFlagAlloc == 0 || p.Fixed {
		return nil, ucs.ErrUnsupported
	}
	// A gap behind the memory belongs to no allocation, so that an access past the end is
	// detected.
	const gap = 64
	if err := d.o.claim(Allocated, p.Length); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	b := make([]byte, p.Length+gap)[:p.Length:p.Length]
	r := d.table.Add(b, p.Access)
	if d.allocated == nil {
		d.allocated = make(map[*kit.Region]struct{})
	}
	d.allocated[r] = struct{}{}
	return r, nil
}

// register adds memory to a table.
func (d *domain) register(t *kit.Regions, buf []byte, access uct.Access) (uct.MemHandle, error) {
	if err := d.o.claim(Registered, len(buf)); err != nil {
		return nil, err
	}
	return t.Add(buf, access), nil
}

// release gives back what a region has taken that is not in a table any more.
func (d *domain) release(r *kit.Region) {
	d.mu.Lock()
	defer d.mu.Unlock()
	kind := Registered
	if _, ok := d.allocated[r]; ok {
		delete(d.allocated, r)
		kind = Allocated
	}
	d.o.claim(kind, -len(r.Bytes()))
}

// Register implements uct.MemoryDomain.
func (d *domain) Register(buf []byte, access uct.Access) (uct.MemHandle, error) {
	if d.attr.Flags&uct.MDFlagRegister == 0 {
		return nil, ucs.ErrUnsupported
	}
	return d.register(&d.table, buf, access)
}

// Deregister implements uct.MemoryDomain.
func (d *domain) Deregister(m uct.MemHandle) error {
	r, ok := m.(*kit.Region)
	if !ok {
		return fmt.Errorf("sim: handle of another memory domain: %w", ucs.ErrInvalidParam)
	}
	if err := d.table.Remove(r); err != nil {
		return err
	}
	d.release(r)
	return nil
}

// AppendKey implements uct.MemoryDomain.
func (d *domain) AppendKey(b []byte, m uct.MemHandle) ([]byte, error) {
	if _, ok := m.(*kit.Region); !ok {
		return b, fmt.Errorf("sim: handle of another memory domain: %w", ucs.ErrInvalidParam)
	}
	if d.o.Keyless {
		return b, nil
	}
	return binary.LittleEndian.AppendUint64(b, d.id), nil
}

// UnpackRkey implements uct.MemoryDomain.
func (d *domain) UnpackRkey(packed []byte) (*uct.Rkey, error) {
	if d.o.Keyless && len(packed) == 0 {
		return &uct.Rkey{}, nil
	}
	v, err := d.keyValue(packed)
	if err != nil {
		return nil, err
	}
	return &uct.Rkey{Value: v}, nil
}

// valued is a domain that implements uct.DeviceMemory.
type valued struct {
	uct.NoDeviceMemory
	*domain
}

// RkeyValue implements uct.DeviceMemory.
func (d valued) RkeyValue(packed []byte) (uint64, error) { return d.keyValue(packed) }

func (d *domain) keyValue(packed []byte) (uint64, error) {
	if len(packed) != keyLen {
		return 0, fmt.Errorf("sim: remote key of %d bytes, not %d: %w", len(packed), keyLen, ucs.ErrInvalidParam)
	}
	return binary.LittleEndian.Uint64(packed), nil
}

// RkeyPtr implements uct.MemoryDomain.
func (d *domain) RkeyPtr(*uct.Rkey, uint64, int) ([]byte, error) { return nil, ucs.ErrUnsupported }

// ReleaseRkey implements uct.MemoryDomain.
func (d *domain) ReleaseRkey(*uct.Rkey) error { return nil }

// memory is the registered memory of a domain.
type memory interface {
	// lookup returns n bytes at addr if the iface given by the parameter from may access them.
	lookup(from *iface, addr uint64, n int, want uct.Access) ([]byte, bool)

	// holds reports whether a region belongs to the domain and contains b.
	holds(r *kit.Region, b []byte) bool
}

func (d *domain) lookup(_ *iface, addr uint64, n int, want uct.Access) ([]byte, bool) {
	return d.table.Lookup(addr, n, want)
}

func (d *domain) holds(r *kit.Region, b []byte) bool { return r.Holds(&d.table, b) }

// Close implements uct.MemoryDomain. While ifaces or registrations exist it returns ucs.ErrBusy
// and closes nothing.
func (d *domain) Close() error {
	if i, r := d.ifaces.Load(), d.table.Len(); i != 0 || r != 0 {
		return fmt.Errorf("sim: closing a memory domain with %d ifaces and %d registrations: %w", i, r, ucs.ErrBusy)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.closed = true
		d.o.claim(Domains, -1)
	}
	return nil
}
