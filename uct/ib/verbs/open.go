//go:build linux

package verbs

import (
	"fmt"

	"github.com/ucx-go/ucx/ucs"
)

// OpenDevice opens the device with the given name (mlx5_0) or node name (uverbs0); "" means the
// first device. It combines FindDevice and Device.Open, but reads only the sysfs files that opening
// needs, because a device may have thousands of files. root is as in Devices.
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
	d, err := FindDevice(root, name) // a device without a node, or an error that lists the devices
	if err != nil {
		return nil, err
	}
	return d.Open()
}
