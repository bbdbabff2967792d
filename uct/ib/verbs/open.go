//go:build linux

package verbs

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// OpenDevice opens the device with that name, of the device or its node, or the first
// device for "". It combines FindDevice and Device.Open, but reads only what opening needs,
// because a device may have thousands of files. root is as in Devices.
func OpenDevice(root, name string) (*Context, error) {
	found, err := outlines(root)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if d := &found[i]; name == "" || d.Name == name || d.Uverbs == name {
			return d.Open()
		}
	}
	if name == "" {
		return nil, fmt.Errorf("verbs: there are no RDMA devices: %w", ucs.ErrNoDevice)
	}
	d, err := FindDevice(root, name) // one that cannot be opened, or an error that lists what there is
	if err != nil {
		return nil, err
	}
	return d.Open()
}
