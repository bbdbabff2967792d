//go:build linux

package cm

import (
	"net/netip"
	"testing"

	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct/ib/rdmacm"
	"github.com/ucx-go/ucx/uct/ib/rdmacm/rdmacmtest"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

var (
	loopback4 = netip.MustParseAddr("127.0.0.1")
	loopback6 = netip.IPv6Loopback()
)

// rig is a simulated machine with the device rxe0.
type rig struct {
	cm     *rdmacmtest.Kernel
	device *verbstest.Kernel
	list   []verbs.Device
	opened []string // names of the devices, once per Open
	refuse error    // error of Open
}

func newRig() *rig {
	return &rig{
		cm: rdmacmtest.New(), device: verbstest.New(),
		list: []verbs.Device{{Name: "rxe0", NodeType: verbs.NodeCA, NodeGUID: rdmacmtest.NodeGUID}},
	}
}

// Channel implements Source.
func (r *rig) Channel() (*rdmacm.EventChannel, error) {
	f, err := r.cm.Open()
	if err != nil {
		return nil, err
	}
	return rdmacm.NewChannel(f)
}

// Devices implements Source.
func (r *rig) Devices() ([]verbs.Device, error) { return r.list, nil }

// Open implements Source.
func (r *rig) Open(d *verbs.Device) (*verbs.Context, error) {
	if r.refuse != nil {
		return nil, r.refuse
	}
	r.opened = append(r.opened, d.Name)
	return verbs.NewContext(r.device.Open(), 0)
}

// fixture returns the fixture for the suite. At the end no object of either kernel may be left.
func (r *rig) fixture(t *testing.T, vars ...string) *ucttest.ConnFixture {
	t.Helper()
	t.Cleanup(func() {
		if n := r.cm.Objects() + r.device.Objects(); n != 0 {
			t.Errorf("%d objects of the kernel are left", n)
		}
	})
	return &ucttest.ConnFixture{Component: NewComponent(r), Config: set(t, vars...), Addr: loopback4, Device: "rxe0:1", PacksFirst: true}
}

// set returns settings with some variables of RDMA_CM_ changed.
func set(t *testing.T, vars ...string) *config.Set {
	t.Helper()
	cfg := new(config.Set)
	for k := 0; k < len(vars); k += 2 {
		if err := cfg.Modify("RDMA_CM_"+vars[k], vars[k+1]); err != nil {
			t.Fatal(err)
		}
	}
	return cfg
}
