package mailbox

import (
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/kit"
)

// memory is the registered memory of all domains of the process.
var memory kit.Regions

// keyLen is the length of a packed key: the number of a region.
const keyLen = 8

type domain struct {
	attr     uct.MDAttr
	resource uct.Resource
	open     atomic.Int32 // ifaces and registrations
}

var _ uct.MemoryDomain = (*domain)(nil)

func newDomain() *domain {
	host := []ucs.MemoryType{ucs.MemoryHost}
	return &domain{
		attr: uct.MDAttr{
			Component:      name,
			Name:           name,
			Flags:          uct.MDFlagRegister | uct.MDFlagNeedRkey,
			RegTypes:       host,
			AccessTypes:    host,
			MaxReg:         math.MaxUint64,
			RkeyPackedSize: keyLen,
		},
		resource: uct.Resource{Transport: name, Device: "memory", Type: uct.DeviceShared, SysDevice: -1},
	}
}

func (d *domain) Attr() *uct.MDAttr                  { return &d.attr }
func (d *domain) Resources() ([]uct.Resource, error) { return []uct.Resource{d.resource}, nil }

func (d *domain) OpenIface(w *uct.Worker, p uct.IfaceParams, cfg *config.Set) (uct.Iface, error) {
	if p.Transport != d.resource.Transport || p.Device != d.resource.Device {
		return nil, fmt.Errorf("mailbox: no resource %s/%s: %w", p.Transport, p.Device, ucs.ErrNoDevice)
	}
	return openIface(d, w, p, cfg)
}

func (d *domain) Alloc(uct.AllocParams) (uct.MemHandle, error) { return nil, ucs.ErrUnsupported }

func (d *domain) Register(buf []byte, access uct.Access) (uct.MemHandle, error) {
	d.open.Add(1)
	return memory.Add(buf, access), nil
}

func (d *domain) Deregister(m uct.MemHandle) error {
	r, ok := m.(*kit.Region)
	if !ok {
		return errHandle
	}
	if err := memory.Remove(r); err != nil {
		return err
	}
	d.open.Add(-1)
	return nil
}

func (d *domain) AppendKey(b []byte, m uct.MemHandle) ([]byte, error) {
	r, ok := m.(*kit.Region)
	if !ok {
		return b, errHandle
	}
	return binary.LittleEndian.AppendUint64(b, r.ID()), nil
}

var errHandle = fmt.Errorf("mailbox: handle of another memory domain: %w", ucs.ErrInvalidParam)

func (d *domain) UnpackRkey(packed []byte) (*uct.Rkey, error) {
	if len(packed) != keyLen {
		return nil, fmt.Errorf("mailbox: remote key of %d bytes, not %d: %w", len(packed), keyLen, ucs.ErrInvalidParam)
	}
	if r := memory.Find(binary.LittleEndian.Uint64(packed)); r != nil {
		return &uct.Rkey{Handle: r}, nil
	}
	return &uct.Rkey{}, nil // gives no access
}

func (d *domain) RkeyPtr(*uct.Rkey, uint64, int) ([]byte, error) { return nil, ucs.ErrUnsupported }
func (d *domain) ReleaseRkey(*uct.Rkey) error                    { return nil }

func (d *domain) Close() error {
	if n := d.open.Load(); n != 0 {
		return fmt.Errorf("mailbox: closing a memory domain with %d ifaces and registrations: %w", n, ucs.ErrBusy)
	}
	return nil
}
