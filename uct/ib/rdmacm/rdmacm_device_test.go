//go:build linux

package rdmacm_test

import (
	"net/netip"
	"os"
	"sync"
	"testing"

	"github.com/ucx-go/ucx/internal/rdmatest"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// devices reads sysfs once, because it has thousands of files.
var devices = sync.OnceValues(func() ([]verbs.Device, error) { return verbs.Devices("") })

// deviceRig returns a rig on the kernel, with the devices of the addresses in CM_CLIENT and
// CM_SERVER, else with those of the virtual machine's cable, else with one device for both ends.
func deviceRig(t *testing.T) *rig {
	t.Helper()
	if _, err := os.Stat("/dev/infiniband/rdma_cm"); err != nil {
		t.Skip("no RDMA connection manager; make test-rxe runs these in a VM")
	}
	if os.Getenv("CM_CLIENT") == "" {
		rdmatest.All(t)
	}
	list := must(devices())(t)
	ucttest.NoLeaks(t)
	client, server := addresses(t)
	open := &rdmacm.Contexts{Devices: list}
	t.Cleanup(func() {
		if err := open.Close(); err != nil {
			t.Error(err)
		}
	})
	return &rig{channel: rdmacm.NewEventChannel, open: open.Open, client: client, server: server}
}

func addresses(t *testing.T) (client, server netip.Addr) {
	t.Helper()
	if c, s := os.Getenv("CM_CLIENT"), os.Getenv("CM_SERVER"); c != "" && s != "" {
		return netip.MustParseAddr(c), netip.MustParseAddr(s)
	}
	if os.Getenv("VM_NET") == "veth" {
		return netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("10.9.0.2")
	}
	list := must(devices())(t)
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

// TestDevice runs the suite on the devices of this machine.
func TestDevice(t *testing.T) {
	deviceRig(t)
	for _, s := range suite {
		t.Run(s.name, func(t *testing.T) { s.test(t, deviceRig(t)) })
	}
}
