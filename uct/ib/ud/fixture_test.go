//go:build linux

package ud_test

import (
	"slices"
	"testing"

	"github.com/ucx-go/ucx/ucs/config"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/ibtest"
	_ "github.com/ucx-go/ucx/uct/ib/ud"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// stepped is a network whose devices do a few requests in each round of a worker and none
// in between, so that much is under way.
type stepped struct {
	uct.Component
	net  *verbstest.Fabric
	pace int
}

// slow makes the devices of a network so.
func slow(net *verbstest.Fabric, pace int) uct.Component {
	net.SetWork(verbstest.InStep)
	return &stepped{ibtest.Component(net.Devices()...), net, pace}
}

// OpenMD implements uct.Component.
func (s *stepped) OpenMD(name string, cfg *config.Set) (uct.MemoryDomain, error) {
	md, err := s.Component.OpenMD(name, cfg)
	if err != nil {
		return nil, err
	}
	return steppedDomain{md, s}, nil
}

type steppedDomain struct {
	uct.MemoryDomain
	of *stepped
}

// OpenIface implements uct.MemoryDomain.
func (d steppedDomain) OpenIface(w *uct.Worker, p uct.IfaceParams, cfg *config.Set) (uct.Iface, error) {
	i, err := d.MemoryDomain.OpenIface(w, p, cfg)
	if err == nil {
		w.AddProgress(d.of)
	}
	return i, err
}

// Progress implements uct.Progressor.
func (s *stepped) Progress() int { return s.net.Step(s.pace) }

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

// impatient are settings with which peers that are gone are found out soon.
var impatient = []string{"UD_TIMEOUT", "400ms", "UD_TIMER_TICK", "2ms"}

// fixture is hosts on the first device of a network. Of two values of a setting the last
// counts.
func fixture(t testing.TB, net *verbstest.Fabric, pairs ...string) ucttest.Fixture {
	return ucttest.Fixture{
		Component: ibtest.Network("ib", net), Transport: "ud_verbs", Silent: true,
		Config: settings(t, append(slices.Clone(impatient), pairs...)...),
	}
}

func worker(t testing.TB) *uct.Worker {
	t.Helper()
	w, err := uct.NewWorker()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

func ifaceParams() uct.IfaceParams {
	return uct.IfaceParams{Transport: "ud_verbs", Device: "rxe0:1"}
}
