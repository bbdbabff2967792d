//go:build linux

package cm

import (
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// deviceFixture returns a fixture on the kernel of this machine.
func deviceFixture(t *testing.T, at netip.Addr, vars ...string) *ucttest.ConnFixture {
	t.Helper()
	return &ucttest.ConnFixture{Component: NewComponent(system{}), Config: set(t, vars...), Addr: at, PacksFirst: true}
}

// needDevices skips a test if the machine has no RDMA connection manager.
func needDevices(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/dev/infiniband/rdma_cm"); err != nil {
		t.Skip("no RDMA connection manager; make test-rxe runs these in a VM")
	}
	rdmatest.All(t)
}

// addresses returns the addresses of both ends of the VM's cable, or the address of one device
// twice.
func addresses(t *testing.T) (client, server netip.Addr) {
	t.Helper()
	if os.Getenv("VM_NET") == "veth" {
		return netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.2")
	}
	list, err := verbs.Devices("")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range list {
		for _, p := range d.Ports {
			for _, g := range p.GIDs {
				if a := g.GID.Addr(); a.Is4() {
					return a, a
				}
			}
		}
	}
	t.Skipf("none of %d RDMA devices has an IPv4 address", len(list))
	return
}

// long reports whether long tests are enabled.
func long() bool { return os.Getenv("RXE_LONG") == "1" }

// TestDevice runs the suite on the kernel, between two devices and from a device to itself.
func TestDevice(t *testing.T) {
	needDevices(t)
	client, server := addresses(t)
	t.Run("across", func(t *testing.T) {
		ucttest.RunConnManager(t, *deviceFixture(t, server, "SOURCE_ADDRESS", client.String()))
	})
	t.Run("itself", func(t *testing.T) {
		if !long() {
			t.Skip("the long form runs it, and the short one with IPv6")
		}
		ucttest.RunConnManager(t, *deviceFixture(t, server))
	})
}

// TestDeviceIPv6 runs the suite from a device to itself, with a global address and with a
// link-local one, which has a zone.
func TestDeviceIPv6(t *testing.T) {
	f := newDevice(t)
	shell(t, "ip -6 addr add fd08::1/64 dev veth8 nodad")
	t.Run("network", func(t *testing.T) {
		if !long() {
			t.Skip("the long form runs it")
		}
		f.Addr = netip.MustParseAddr("fd08::1")
		ucttest.RunConnManager(t, *f)
	})
	d, err := verbs.FindDevice("", "rxe8")
	if err != nil {
		t.Fatal(err)
	}
	zone, err := os.ReadFile("/sys/class/net/veth8/ifindex")
	if err != nil {
		t.Fatal(err)
	}
	f.Addr = netip.Addr{}
	for _, g := range d.Ports[0].GIDs {
		if a := g.GID.Addr(); a.IsLinkLocalUnicast() && g.NetDev == "veth8" {
			f.Addr = a.WithZone(strings.TrimSpace(string(zone)))
		}
	}
	if !f.Addr.IsValid() {
		t.Fatalf("rxe8 has no address of its link: %+v", d.Ports)
	}
	t.Run("link", func(t *testing.T) { ucttest.RunConnManager(t, *f) })
}
