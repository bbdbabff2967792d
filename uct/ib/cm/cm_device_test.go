//go:build linux

package cm

import (
	"net/netip"
	"os"
	"testing"

	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// deviceFixture is the kernel of this machine.
func deviceFixture(t *testing.T, at netip.Addr, vars ...string) *ucttest.ConnFixture {
	t.Helper()
	return &ucttest.ConnFixture{Component: NewComponent(system{}), Config: set(t, vars...), Addr: at, PacksFirst: true}
}

// needDevices skips a test where there is nothing to run it on.
func needDevices(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/dev/infiniband/rdma_cm"); err != nil {
		t.Skip("no RDMA connection manager; make test-rxe runs these in a VM")
	}
	rdmatest.All(t)
}

// addresses are those of the ends of the virtual machine's cable, or one of a device twice.
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

// TestDevice runs the suite over the kernel: from one device to another, and from one
// to itself.
func TestDevice(t *testing.T) {
	needDevices(t)
	client, server := addresses(t)
	t.Run("across", func(t *testing.T) {
		ucttest.RunConnManager(t, *deviceFixture(t, server, "SOURCE_ADDRESS", client.String()))
	})
	t.Run("itself", func(t *testing.T) {
		ucttest.RunConnManager(t, *deviceFixture(t, server))
	})
}
