//go:build linux

package provider

import (
	"cmp"
	"slices"

	"github.com/ucx-go/ucx/uct/ib/internal/uverbs"
)

// Provider is the user-space half of a kernel driver.
type Provider struct {
	Name           string // name of the kernel's driver
	ID             uint32 // number of the kernel's driver; enum rdma_driver_id
	MinABI, MaxABI int    // supported range of abi_version in sysfs
	// Open returns the Context of a device. It is called before the kernel call GET_CONTEXT.
	Open func(Device) (Context, error)
}

var providers = make(map[uint32]*Provider)

// Register adds a provider. It is called from init functions, and panics if the driver has a
// provider already.
func Register(p *Provider) {
	if providers[p.ID] != nil {
		panic("verbs: two providers for " + p.Name)
	}
	providers[p.ID] = p
}

// Find returns the provider for the kernel driver with number id, nil if there is none.
func Find(id uint32) *Provider { return providers[id] }

// All returns all providers, sorted by name.
func All() []*Provider {
	var all []*Provider
	for _, p := range providers {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *Provider) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Device is an open device, as a provider uses it.
type Device struct {
	File   uverbs.File
	Driver uint32 // number of the kernel's driver, which every kernel call contains
}

// Name returns the name of the device for errors.
func (d Device) Name() string { return d.File.Name() }

// Do makes a call to the kernel.
func (d Device) Do(call *uverbs.Call) error { return call.Do(d.File, d.Driver) }

// Invoke executes a command of the write(2) interface through the ioctl method INVOKE_WRITE. in is
// the request; out receives the response.
func (d Device) Invoke(command uint32, in, out []byte) error {
	return d.Do(uverbs.Invoke(command, in, out))
}

// Map maps length bytes of the device file at an offset that the kernel has returned.
func (d Device) Map(offset uint64, length int) ([]byte, error) {
	b, errno := d.File.Mmap(offset, length)
	if errno != 0 {
		return nil, &uverbs.Error{Device: d.Name(), Call: "mmap", Errno: errno}
	}
	return b, nil
}
