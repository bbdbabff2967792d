//go:build linux

package rigtest

import (
	"testing"

	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// Rig is a network of devices without a kernel, and package ib over them. Work that the devices
// could not do at once is tried again in every round of progress of a worker; real devices do it by
// themselves.
type Rig struct {
	uct.Component
	*verbstest.Fabric
	pace int
}

// New makes a network of devices. When the test ends, it checks that they have no objects left and
// that the test has violated no rule for the use of devices.
func New(t testing.TB, devices ...verbstest.Config) *Rig {
	t.Helper()
	r := &Rig{Fabric: verbstest.NewFabric()}
	for _, c := range devices {
		r.Add(c)
	}
	r.Component = r.Still()
	t.Cleanup(func() {
		for _, d := range r.Devices() {
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

// Port is the configuration of a device with one port.
func Port(p verbstest.Port) verbstest.Config { return verbstest.Config{Ports: []verbstest.Port{p}} }

// Still returns package ib over the devices without the work that Rig adds to the workers'
// progress.
func (r *Rig) Still() uct.Component { return ibtest.Component(r.Devices()...) }

// Slow makes the devices execute pace requests in a round of progress of a worker, and none in
// between, so that many operations are outstanding.
func (r *Rig) Slow(pace int) *Rig {
	r.pace = pace
	r.SetWork(verbstest.InStep)
	return r
}

// OpenMD implements uct.Component.
func (r *Rig) OpenMD(name string, cfg *config.Set) (uct.MemoryDomain, error) {
	md, err := r.Component.OpenMD(name, cfg)
	if err != nil {
		return nil, err
	}
	return domain{md.(*ib.Domain), r}, nil
}

// domain adds the work of the network to the progress of the workers that open interfaces.
type domain struct {
	*ib.Domain
	rig *Rig
}

// OpenIface implements uct.MemoryDomain.
func (d domain) OpenIface(w *uct.Worker, p uct.IfaceParams, cfg *config.Set) (uct.Iface, error) {
	i, err := d.Domain.OpenIface(w, p, cfg)
	if err == nil {
		w.AddProgress(round{d.rig})
	}
	return i, err
}

// round does the work of the network that is due in one round of progress of a worker.
type round struct{ r *Rig }

// Progress implements uct.Progressor.
func (d round) Progress() int {
	if d.r.pace > 0 {
		return d.r.Step(d.r.pace)
	}
	d.r.Fabric.Progress()
	return 0
}

// Arm implements uct.Progressor.
func (round) Arm(uct.EventFlags) error { return nil }
