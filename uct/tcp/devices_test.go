//go:build linux

package tcp

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// TestDevicesReadOnce: opening an interface uses the list of devices that Resources has read, and
// reads it again only if it has changed.
func TestDevicesReadOnce(t *testing.T) {
	w, err := uct.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	m := newDomain(mdOptions{families: []bool{false}})
	real, looks := m.devices.read, 0
	var now []netdev // instead of the real ones
	m.devices.read = func() ([]netdev, error) {
		if looks++; now != nil {
			return now, nil
		}
		return real()
	}
	open := func(device string, more int) (uct.Iface, error) {
		t.Helper()
		before := looks
		i, err := m.OpenIface(w, uct.IfaceParams{Transport: componentName, Device: device}, nil)
		if looks != before+more {
			t.Errorf("opening %q, %v: looked %d times, want %d", device, err, looks-before, more)
		}
		if err == nil {
			t.Cleanup(func() { i.Close() })
		}
		return i, err
	}
	must := func(device string, more int) {
		t.Helper()
		i, err := open(device, more)
		if err != nil {
			t.Fatal(err)
		}
		if ip := i.(*iface).dev.ip; ip != netip.MustParseAddr("127.0.0.1") {
			t.Errorf("%s has %v", device, ip)
		}
	}
	must("lo", 1) // no list was read before
	if _, err := m.Resources(); err != nil || looks != 2 {
		t.Fatalf("%v, looked %d times", err, looks)
	}
	must("lo", 0)
	must("lo", 0)

	// The list has an address that the device no longer has.
	now = []netdev{{name: "lo", index: 1, mtu: 1500, addr: netip.MustParseAddr("198.51.100.77")}}
	m.Resources()
	now = nil
	must("lo", 1)
	must("lo", 0)

	// The listed address cannot be used, or the device is gone.
	now = []netdev{{name: "eth7", index: 1, mtu: 1500, addr: netip.MustParseAddr("198.51.100.77")}}
	if _, err := open("eth7", 1); !errors.Is(err, ucs.ErrIO) {
		t.Errorf("an address that is not there: %v", err)
	}
	now = []netdev{}
	if _, err := open("eth7", 1); !errors.Is(err, ucs.ErrNoDevice) {
		t.Errorf("a device that is gone: %v", err)
	}
}
