//go:build linux

package cma

import (
	"fmt"
	"sync/atomic"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/internal/host"
)

// domain is the memory domain of cma. As in C UCX 1.22 memory is not registered: all memory can be
// used on both sides (uct_cma_md_query). RegCost is that of releases before 1.19: peers before 1.16
// count it when they choose lanes, and both sides must choose the same.
type domain struct {
	attr   uct.MDAttr
	ifaces atomic.Int32 // number of open ifaces
	users  host.Users   // users whose processes may be accessed
}

var _ uct.MemoryDomain = (*domain)(nil)

var resource = uct.Resource{Transport: name, Device: device, Type: uct.DeviceShared, SysDevice: -1}

func newDomain() *domain {
	return &domain{attr: uct.MDAttr{
		Component:   name,
		Name:        name,
		AccessTypes: []ucs.MemoryType{ucs.MemoryHost},
		RegCost:     uct.Linear{C: 9e-9},
	}}
}

// Attr implements uct.MemoryDomain.
func (d *domain) Attr() *uct.MDAttr { return &d.attr }

// Resources implements uct.MemoryDomain.
func (d *domain) Resources() ([]uct.Resource, error) { return []uct.Resource{resource}, nil }

// OpenIface implements uct.MemoryDomain.
func (d *domain) OpenIface(w *uct.Worker, p uct.IfaceParams, cfg *config.Set) (uct.Iface, error) {
	if p.Transport != name || p.Device != device {
		return nil, fmt.Errorf("cma: no resource %s/%s: %w", p.Transport, p.Device, ucs.ErrNoDevice)
	}
	return openIface(d, w, p, cfg)
}

// Alloc implements uct.MemoryDomain.
func (d *domain) Alloc(uct.AllocParams) (uct.MemHandle, error) { return nil, ucs.ErrUnsupported }

// Register implements uct.MemoryDomain.
func (d *domain) Register([]byte, uct.Access) (uct.MemHandle, error) {
	return nil, ucs.ErrUnsupported
}

// Deregister implements uct.MemoryDomain. It always fails, because the domain makes no handles.
func (d *domain) Deregister(uct.MemHandle) error { return ucs.ErrInvalidParam }

// AppendKey implements uct.MemoryDomain. It always fails, because the domain makes no handles.
func (d *domain) AppendKey(b []byte, _ uct.MemHandle) ([]byte, error) {
	return b, ucs.ErrUnsupported
}

// emptyKey is the result of unpacking any key. No field of it is used.
var emptyKey uct.Rkey

// UnpackRkey implements uct.MemoryDomain. Keys are optional; in release 1.13 of C UCX they have 0
// bytes.
func (d *domain) UnpackRkey(packed []byte) (*uct.Rkey, error) {
	if len(packed) != 0 {
		return nil, fmt.Errorf("cma: remote key of %d bytes, not 0: %w", len(packed), ucs.ErrInvalidParam)
	}
	return &emptyKey, nil
}

// RkeyPtr implements uct.MemoryDomain.
func (d *domain) RkeyPtr(*uct.Rkey, uint64, int) ([]byte, error) { return nil, ucs.ErrUnsupported }

// ReleaseRkey implements uct.MemoryDomain.
func (d *domain) ReleaseRkey(*uct.Rkey) error { return nil }

// Close implements uct.MemoryDomain. While ifaces are open it returns
// ucs.ErrBusy and closes nothing.
func (d *domain) Close() error {
	if n := d.ifaces.Load(); n != 0 {
		return fmt.Errorf("cma: closing a memory domain with %d open ifaces: %w", n, ucs.ErrBusy)
	}
	return nil
}
