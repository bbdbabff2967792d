//go:build linux

package tcp

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// deviceList caches the usable devices as of the last call of look, usually the one that listed
// the domain's resources. The kernel only lists all devices at once, so opening an iface uses
// the cache, and reads the devices again only if its device has changed.
type deviceList struct {
	read func() ([]netdev, error)

	mu   sync.Mutex
	devs []netdev // guarded by mu
}

// look reads the devices from the kernel, and caches them.
func (l *deviceList) look() ([]netdev, error) {
	devs, err := l.read()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.devs = devs
	return devs, nil
}

// with calls use with the device of that name, first as cached. If the device is not in the
// cache, or use fails because the device has changed (changed), with reads the devices again
// and calls use with the device as it is now.
func (l *deviceList) with(name string, use func(netdev) error) error {
	l.mu.Lock()
	devs := l.devs
	l.mu.Unlock()
	if d, ok := deviceOf(devs, name); ok {
		if err := use(d); !changed(err) {
			return err
		}
	}
	devs, err := l.look()
	if err != nil {
		return err
	}
	d, ok := deviceOf(devs, name)
	if !ok {
		return fmt.Errorf("tcp: no usable device %q: %w", name, ucs.ErrNoDevice)
	}
	return use(d)
}

// changed reports whether err says that the device is gone, is not running or does not have
// its address any more.
func changed(err error) bool {
	return errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENETDOWN) || errors.Is(err, unix.ENODEV)
}

func deviceOf(devs []netdev, name string) (netdev, bool) {
	for _, d := range devs {
		if d.name == name {
			return d, true
		}
	}
	return netdev{}, false
}
