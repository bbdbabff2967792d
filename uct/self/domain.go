package self

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// domain is the memory domain. Registration only adds an entry to the table that remote
// accesses are checked against.
type domain struct {
	attr    uct.MDAttr
	devices []uct.Resource
	table   kit.Regions
	ifaces  atomic.Int32 // number of open ifaces
}

var _ uct.MemoryDomain = (*domain)(nil)

func openDomain(cfg *config.Set) (*domain, error) {
	s, err := loadDomainSettings(cfg)
	if err != nil {
		return nil, err
	}
	host := []ucs.MemoryType{ucs.MemoryHost}
	d := &domain{attr: uct.MDAttr{
		Component:      name,
		Name:           name,
		RkeyPackedSize: keyLen,
		Flags:          uct.MDFlagRegister | uct.MDFlagNeedRkey,
		RegTypes:       host,
		AccessTypes:    host,
		NonblockTypes:  host,
		CacheTypes:     host,
		MaxReg:         math.MaxUint64,
	}}
	for i := range s.NumDevices {
		// "memory", with a number only when there are several
		// (uct_self_query_tl_devices of C UCX 1.22).
		dev := "memory"
		if s.NumDevices > 1 {
			dev += strconv.Itoa(i)
		}
		d.devices = append(d.devices, uct.Resource{
			Transport: name, Device: dev, Type: uct.DeviceSelf, SysDevice: -1,
		})
	}
	return d, nil
}

// Attr implements uct.MemoryDomain. The result is the same for as long as the domain is open.
func (d *domain) Attr() *uct.MDAttr { return &d.attr }

// Resources implements uct.MemoryDomain: each device is one resource.
func (d *domain) Resources() ([]uct.Resource, error) {
	return append([]uct.Resource(nil), d.devices...), nil
}

// OpenIface implements uct.MemoryDomain. A resource that Resources does not list matches
// ucs.ErrNoDevice.
func (d *domain) OpenIface(w *uct.Worker, p uct.IfaceParams, cfg *config.Set) (uct.Iface, error) {
	for _, r := range d.devices {
		if r.Transport == p.Transport && r.Device == p.Device {
			return openIface(d, w, r, p, cfg)
		}
	}
	return nil, fmt.Errorf("self: no resource %s/%s: %w", p.Transport, p.Device, ucs.ErrNoDevice)
}

// Alloc implements uct.MemoryDomain. The domain does not announce MDFlagAlloc.
func (d *domain) Alloc(uct.AllocParams) (uct.MemHandle, error) { return nil, ucs.ErrUnsupported }

// Register implements uct.MemoryDomain. Any goroutine may call it; the table has a lock.
func (d *domain) Register(buf []byte, access uct.Access) (uct.MemHandle, error) {
	return d.table.Add(buf, access), nil
}

// Deregister implements uct.MemoryDomain: later accesses with keys of m are refused.
func (d *domain) Deregister(m uct.MemHandle) error {
	r, err := region(m)
	if err != nil {
		return err
	}
	return d.table.Remove(r)
}

// keyLen is the length of a packed key: the number of the registration, valid only in this
// process. The keys of self in C UCX are empty; C UCX skips the keys of self that it receives.
const keyLen = 8

// AppendKey implements uct.MemoryDomain: it appends exactly RkeyPackedSize bytes.
func (d *domain) AppendKey(b []byte, m uct.MemHandle) ([]byte, error) {
	r, err := region(m)
	if err != nil {
		return b, err
	}
	return binary.LittleEndian.AppendUint64(b, r.ID()), nil
}

// UnpackRkey implements uct.MemoryDomain. A key of memory that is not registered, or no longer
// registered, gives no access. The empty key of C UCX gives no access either.
func (d *domain) UnpackRkey(packed []byte) (*uct.Rkey, error) {
	if len(packed) == 0 {
		return &uct.Rkey{}, nil
	}
	if len(packed) != keyLen {
		return nil, fmt.Errorf("self: remote key of %d bytes, not %d: %w", len(packed), keyLen, ucs.ErrInvalidParam)
	}
	if r := d.table.Find(binary.LittleEndian.Uint64(packed)); r != nil {
		return &uct.Rkey{Handle: r}, nil
	}
	return &uct.Rkey{}, nil
}

// opened returns the n bytes at addr if the key permits the accesses in want; otherwise ok is
// false.
func opened(key *uct.Rkey, addr uint64, n int, want uct.Access) (b []byte, ok bool) {
	if key == nil {
		return nil, false
	}
	r, ok := key.Handle.(*kit.Region)
	if !ok {
		return nil, false
	}
	return r.At(addr, n, want)
}

// RkeyPtr implements uct.MemoryDomain. The memory belongs to this process.
func (d *domain) RkeyPtr(key *uct.Rkey, raddr uint64, length int) ([]byte, error) {
	if length < 0 {
		return nil, ucs.ErrInvalidParam
	}
	b, ok := opened(key, raddr, length, uct.AccessRemotePut|uct.AccessRemoteGet)
	if !ok {
		return nil, errNoAccess("pointer to", raddr, length)
	}
	return b, nil
}

// ReleaseRkey implements uct.MemoryDomain. UnpackRkey attaches nothing that must be released.
func (d *domain) ReleaseRkey(*uct.Rkey) error { return nil }

// Close implements uct.MemoryDomain. While ifaces or registrations exist it returns ucs.ErrBusy
// and closes nothing.
func (d *domain) Close() error {
	if i, r := d.ifaces.Load(), d.table.Len(); i != 0 || r != 0 {
		return fmt.Errorf("self: closing a memory domain with %d ifaces and %d registrations: %w", i, r, ucs.ErrBusy)
	}
	return nil
}

// region returns the registration behind a handle.
func region(m uct.MemHandle) (*kit.Region, error) {
	r, ok := m.(*kit.Region)
	if !ok {
		return nil, fmt.Errorf("self: handle of another memory domain: %w", ucs.ErrInvalidParam)
	}
	return r, nil
}
