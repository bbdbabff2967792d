//go:build linux

package rc_test

import (
	"testing"

	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	_ "github.com/ucx-go/ucx/uct/ib/rc"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// rig is a network of devices without a kernel. What they could not do at once they try
// again in every round of a worker, as real ones do by themselves.
type rig struct {
	uct.Component
	net  *verbstest.Fabric
	devs []*verbstest.Kernel
	pace int // requests that they do in a round; 0: all, and at once when the bell rings
}

// newRig makes a network of devices like those of soft-RoCE on virtual Ethernet. That they
// leave nothing behind is checked when the test ends.
func newRig(t testing.TB, ports ...verbstest.Port) *rig {
	t.Helper()
	var list []verbstest.Config
	for _, p := range ports {
		list = append(list, verbstest.Config{Ports: []verbstest.Port{p}})
	}
	return newRigOf(t, list...)
}

// newRigOf is newRig of devices with limits.
func newRigOf(t testing.TB, configs ...verbstest.Config) *rig {
	t.Helper()
	r := &rig{net: verbstest.NewFabric()}
	for _, c := range configs {
		r.devs = append(r.devs, r.net.Add(c))
	}
	r.Component = ibtest.Component(r.devs...)
	t.Cleanup(func() {
		for _, d := range r.devs {
			if o, m := d.Objects(), d.Mapped(); o != 0 || m != 0 {
				t.Errorf("%s: %d objects and %d mapped queues are left", d.Name(), o, m)
			}
			for _, rule := range d.Broken() {
				t.Error(rule)
			}
		}
	})
	return r
}

// OpenMD implements uct.Component.
func (r *rig) OpenMD(name string, cfg *config.Set) (uct.MemoryDomain, error) {
	md, err := r.Component.OpenMD(name, cfg)
	if err != nil {
		return nil, err
	}
	return domain{md, r}, nil
}

// domain has the network go on with its workers.
type domain struct {
	uct.MemoryDomain
	rig *rig
}

// OpenIface implements uct.MemoryDomain.
func (d domain) OpenIface(w *uct.Worker, p uct.IfaceParams, cfg *config.Set) (uct.Iface, error) {
	i, err := d.MemoryDomain.OpenIface(w, p, cfg)
	if err != nil {
		return nil, err
	}
	w.AddProgress(d.rig)
	return i, nil
}

// Progress implements uct.Progressor.
func (r *rig) Progress() int {
	if r.pace == 0 {
		r.net.Progress()
		return 0
	}
	return r.net.Step(r.pace)
}

// slow has the devices do so many requests in a round of a worker, and none in between.
func (r *rig) slow(pace int) *rig {
	r.pace = pace
	r.net.SetWork(verbstest.InStep)
	return r
}

// settings makes a configuration.
func settings(t testing.TB, pairs ...string) *config.Set {
	t.Helper()
	set := new(config.Set)
	for k := 0; k+1 < len(pairs); k += 2 {
		if err := set.Modify(pairs[k], pairs[k+1]); err != nil {
			t.Fatal(err)
		}
	}
	return set
}

// fixture is a pair of hosts on one device.
func fixture(t testing.TB, r *rig, pairs ...string) ucttest.Fixture {
	return ucttest.Fixture{Component: r, Transport: "rc_verbs", Config: settings(t, pairs...)}
}
