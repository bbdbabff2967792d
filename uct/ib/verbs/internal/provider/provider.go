//go:build linux

package provider

import (
	"cmp"
	"slices"

	"github.com/ucx-go/ucx/internal/ib/uverbs"
)

// Provider is the user's half of one of the kernel's drivers.
type Provider struct {
	Name           string // as the kernel's driver is called
	ID             uint32 // of the kernel's driver; enum rdma_driver_id
	MinABI, MaxABI int    // of sysfs abi_version
	// Open begins with a device, before it is asked for a context.
	Open func(Device) (Context, error)
}

var providers = make(map[uint32]*Provider)

// Register adds a provider, from an init function. One of each driver is all there
// can be.
func Register(p *Provider) {
	if providers[p.ID] != nil {
		panic("verbs: two providers for " + p.Name)
	}
	providers[p.ID] = p
}

// Find is the provider for one of the kernel's drivers, nil if there is none.
func Find(id uint32) *Provider { return providers[id] }

// All lists the providers by name.
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
	Driver uint32 // goes with every call
}

// Name is what errors call it.
func (d Device) Name() string { return d.File.Name() }

// Do makes a call.
func (d Device) Do(call *uverbs.Call) error { return call.Do(d.File, d.Driver) }

// Invoke makes a command.
func (d Device) Invoke(command uint32, in, out []byte) error {
	return d.Do(uverbs.Invoke(command, in, out))
}

// Map maps what the kernel has named.
func (d Device) Map(offset uint64, length int) ([]byte, error) {
	b, errno := d.File.Mmap(offset, length)
	if errno != 0 {
		return nil, &uverbs.Error{Device: d.Name(), Call: "mmap", Errno: errno}
	}
	return b, nil
}
