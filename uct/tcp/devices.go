//go:build linux

package tcp

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/ucx-go/ucx/ucs"
)

// deviceList is the usable devices as they were when somebody looked last: mostly when
// the domain's resources were listed. The kernel tells about all at once, so an interface
// goes by that, and looks again only where its device is not as it was.
type deviceList struct {
	read func() ([]netdev, error)

	mu   sync.Mutex
	devs []netdev // guarded by mu
}

// look reads the devices.
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

// with calls use with the device of that name: first as it was at the last look, and if
// it was not there, has not that address any more or is not running, as it is.
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

// changed reports whether a device was of no use for a reason that a look would show.
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
