package sim

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/rma"
)

// keyLen is the length of a packed key: the number of the domain.
const keyLen = 8

// domain is a memory domain: what its ifaces' peers may touch.
type domain struct {
	o      *Options
	id     uint64 // on the network, also the value of its keys
	attr   uct.MDAttr
	table  rma.Table
	memory memory // itself, or who tells its peers apart
	ifaces atomic.Int32
}

var (
	_ uct.MemoryDomain = (*domain)(nil)
	_ uct.ValueKeys    = valued{}
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
func (d *domain) Resources() ([]uct.Resource, error) {
	var list []uct.Resource
	for i := range d.o.Devices {
		list = append(list, uct.Resource{
			Transport: d.o.Name, Device: fmt.Sprintf("%s%d", d.o.Name, i),
			Type: uct.DeviceNetwork, SysDevice: -1,
		})
	}
	return list, nil
}

// OpenIface implements uct.MemoryDomain.
func (d *domain) OpenIface(w *uct.Worker, p uct.IfaceParams, _ *config.Set) (uct.Iface, error) {
	list, _ := d.Resources()
	for dev, r := range list {
		if r.Transport == p.Transport && r.Device == p.Device {
			i, err := openIface(d, w, r, dev, p)
			if err == nil && d.o.Place != nil {
				return placed{i}, nil
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
	// Behind it is room that is nobody's, so that who reaches too far is found out.
	const gap = 64
	return d.table.Add(make([]byte, p.Length+gap)[:p.Length:p.Length], p.Access), nil
}

// Register implements uct.MemoryDomain.
func (d *domain) Register(buf []byte, access uct.Access) (uct.MemHandle, error) {
	if d.attr.Flags&uct.MDFlagRegister == 0 {
		return nil, ucs.ErrUnsupported
	}
	return d.table.Add(buf, access), nil
}

// Deregister implements uct.MemoryDomain.
func (d *domain) Deregister(m uct.MemHandle) error {
	r, ok := m.(*rma.Region)
	if !ok {
		return fmt.Errorf("sim: handle of another memory domain: %w", ucs.ErrInvalidParam)
	}
	return d.table.Remove(r)
}

// AppendKey implements uct.MemoryDomain.
func (d *domain) AppendKey(b []byte, m uct.MemHandle) ([]byte, error) {
	if _, ok := m.(*rma.Region); !ok {
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

// valued is a domain whose keys are numbers.
type valued struct{ *domain }

// RkeyValue implements uct.ValueKeys.
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

// memory is what is registered with a domain.
type memory interface {
	// lookup finds memory that an iface may access.
	lookup(from *iface, addr uint64, n int, want uct.Access) ([]byte, bool)

	// holds reports whether a region is the domain's and holds b.
	holds(r *rma.Region, b []byte) bool
}

func (d *domain) lookup(_ *iface, addr uint64, n int, want uct.Access) ([]byte, bool) {
	return d.table.Lookup(addr, n, want)
}

func (d *domain) holds(r *rma.Region, b []byte) bool { return r.Holds(&d.table, b) }

// Close implements uct.MemoryDomain. While something is open on the domain it
// returns ucs.ErrBusy and closes nothing.
func (d *domain) Close() error {
	if i, r := d.ifaces.Load(), d.table.Len(); i != 0 || r != 0 {
		return fmt.Errorf("sim: closing a memory domain with %d ifaces and %d registrations: %w", i, r, ucs.ErrBusy)
	}
	return nil
}
