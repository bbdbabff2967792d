//go:build linux

package shm

import (
	"fmt"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// domain is the memory domain of posix or sysv. It cannot register memory: memory that peers
// may access is allocated from the domain.
type domain struct {
	attr     uct.MDAttr
	m        mapper
	attached attachTable
	device   host.DeviceAddr
	resource uct.Resource
	ifaces   atomic.Int32 // number of open interfaces
	allocs   atomic.Int32 // number of live allocations
}

var _ interface {
	uct.MemoryDomain
	uct.MappedMemory
} = (*domain)(nil)

func openDomain(c component, m mapper) *domain {
	mem := []ucs.MemoryType{ucs.MemoryHost}
	return &domain{
		attr: uct.MDAttr{
			Component:      c.name,
			Name:           c.name,
			Flags:          uct.MDFlagAlloc | uct.MDFlagNeedRkey | uct.MDFlagFixed | uct.MDFlagRkeyPtr,
			AllocTypes:     mem,
			AccessTypes:    mem,
			CacheTypes:     mem,
			MaxAlloc:       m.maxAlloc(),
			RkeyPackedSize: m.keyLen(),
		},
		m:        m,
		attached: attachTable{m: m},
		device:   host.LocalDeviceAddr(),
		resource: uct.Resource{Transport: c.name, Device: deviceName, Type: uct.DeviceShared, SysDevice: -1},
	}
}

// Attr implements uct.MemoryDomain.
func (d *domain) Attr() *uct.MDAttr { return &d.attr }

// Resources implements uct.MemoryDomain.
func (d *domain) Resources() ([]uct.Resource, error) { return []uct.Resource{d.resource}, nil }

// OpenIface implements uct.MemoryDomain.
func (d *domain) OpenIface(w *uct.Worker, p uct.IfaceParams, cfg *config.Set) (uct.Iface, error) {
	if p.Transport != d.resource.Transport || p.Device != d.resource.Device {
		return nil, fmt.Errorf("shm: no resource %s/%s: %w", p.Transport, p.Device, ucs.ErrNoDevice)
	}
	o, err := loadOptions(cfg, d.resource.Transport, p)
	if err != nil {
		return nil, err
	}
	return openIface(d, w, p, o)
}

// allocation is memory that peers may access.
type allocation struct {
	d      *domain
	seg    *segment
	access uct.Access // the access that the memory was allocated for
	freed  atomic.Bool
}

// Bytes implements uct.MemHandle: whole pages.
func (a *allocation) Bytes() []byte { return a.seg.mem[:len(a.seg.mem)-a.seg.tail] }

// life returns the life page (life.go) behind the memory, nil if there was no room for the page.
func (a *allocation) life() life {
	if a.seg.tail == 0 {
		return nil
	}
	return life(a.seg.mem[len(a.seg.mem)-pageSize:][:lifeBytes])
}

// Alloc implements uct.MemoryDomain. The segment has one page more than requested, the life page
// (life.go).
func (d *domain) Alloc(p uct.AllocParams) (uct.MemHandle, error) {
	switch {
	case p.Length <= 0:
		return nil, fmt.Errorf("shm: allocating %d bytes: %w", p.Length, ucs.ErrInvalidParam)
	case p.Fixed && (p.Address == 0 || p.Address%uint64(pageSize) != 0):
		return nil, fmt.Errorf("shm: fixed address %#x is not page-aligned: %w", p.Address, ucs.ErrInvalidParam)
	case uint64(p.Length) > d.most():
		return nil, fmt.Errorf("shm: allocating %d bytes: at most %d, the memory and swap of the machine: %w", p.Length, d.most(), ucs.ErrNoMemory)
	}
	o := segmentOptions{
		size:    pages(p.Length) + pageSize,
		addr:    p.Address &^ uint64(pageSize-1),
		fixed:   p.Fixed,
		mayHuge: true,
		what:    "memory",
	}
	s, err := d.m.create(o)
	if err != nil && p.Fixed { // perhaps there is room for the memory alone
		o.size = pages(p.Length)
		s, err = d.m.create(o)
	} else if err == nil {
		s.tail = pageSize
	}
	if err != nil {
		return nil, err
	}
	if !p.Nonblock {
		// An error is ignored: pages are then allocated when they are touched.
		_ = unix.Madvise(s.mem, unix.MADV_POPULATE_WRITE)
	}
	d.allocs.Add(1)
	a := &allocation{d: d, seg: s, access: p.Access}
	if l := a.life(); l != nil {
		l.begin()
	}
	return a, nil
}

// Register implements uct.MemoryDomain.
func (d *domain) Register([]byte, uct.Access) (uct.MemHandle, error) {
	return nil, ucs.ErrUnsupported
}

// Revoke implements uct.MappedMemory.
func (d *domain) Revoke(m uct.MemHandle) {
	if a, err := d.allocation(m); err == nil && !a.freed.Load() {
		a.life().revoke()
	}
}

// Deregister implements uct.MemoryDomain: it frees an allocation. Peers that have unpacked the
// allocation's key keep the memory mapped as long as they keep the key, but may not access the
// memory.
func (d *domain) Deregister(m uct.MemHandle) error {
	a, err := d.allocation(m)
	if err != nil {
		return err
	}
	if !a.freed.CompareAndSwap(false, true) {
		return fmt.Errorf("shm: freeing an allocation twice: %w", ucs.ErrInvalidParam)
	}
	d.allocs.Add(-1)
	a.life().revoke()
	return d.m.destroy(a.seg)
}

// most returns the largest size of an allocation in bytes. If there is not enough memory at the
// time, the kernel refuses segments in a file system and System V segments. For files without a
// name the kernel overcommits memory, so their limit is MaxAlloc.
func (d *domain) most() uint64 {
	if m, ok := d.m.(*posix); ok && m.link {
		return min(d.attr.MaxAlloc, maxObject)
	}
	return maxObject
}

// allocation returns the allocation of this domain that m stands for.
func (d *domain) allocation(m uct.MemHandle) (*allocation, error) {
	a, ok := m.(*allocation)
	if !ok || a.d != d {
		return nil, fmt.Errorf("shm: handle of another memory domain: %w", ucs.ErrInvalidParam)
	}
	return a, nil
}

// keyAccess is the access that every key grants.
const keyAccess = uct.AccessRemotePut | uct.AccessRemoteGet

// AppendKey implements uct.MemoryDomain. As with C UCX a key opens all of the memory for every
// access, so memory that peers must not read and write has no key.
func (d *domain) AppendKey(b []byte, m uct.MemHandle) ([]byte, error) {
	a, err := d.allocation(m)
	if err != nil {
		return b, err
	}
	if a.freed.Load() {
		return b, fmt.Errorf("shm: packing a key of an allocation that was freed: %w", ucs.ErrInvalidParam)
	}
	if a.access&keyAccess != keyAccess {
		return b, fmt.Errorf("shm: packing a key needs remote read and write access, because peers map the memory: %w", ucs.ErrUnsupported)
	}
	if a.seg.tail == 0 {
		return b, fmt.Errorf("shm: packing a key of memory at a fixed address without a free page after it: access could not be revoked: %w", ucs.ErrUnsupported)
	}
	return d.m.appendKey(b, a.seg), nil
}

// Close implements uct.MemoryDomain. While something is open on the domain it
// returns ucs.ErrBusy and closes nothing.
func (d *domain) Close() error {
	if i, a, k := d.ifaces.Load(), d.allocs.Load(), d.attached.len(); i != 0 || a != 0 || k != 0 {
		return fmt.Errorf("shm: closing a memory domain with %d ifaces, %d allocations and %d attached segments: %w",
			i, a, k, ucs.ErrBusy)
	}
	return nil
}
