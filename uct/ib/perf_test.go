//go:build linux

package ib_test

import (
	"math"
	"testing"

	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib"
	_ "github.com/ucx-go/ucx/uct/ib/ud"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
)

// narrow is a device behind a PCI link of a given bandwidth.
type narrow struct {
	*verbstest.Kernel
	link float64
}

func (n narrow) Devices() ([]verbs.Device, error) {
	return []verbs.Device{{Name: n.Name(), NodeType: verbs.NodeCA, NUMANode: -1}}, nil
}
func (n narrow) Open(d *verbs.Device) (*verbs.Context, error) {
	return verbs.NewContext(n.Kernel.Open(), d.ABIVersion)
}
func (narrow) Read(d *verbs.Device) {
	d.Ports = []verbs.Port{{Num: 1, PKeys: []verbs.PKey{0xffff}}}
}
func (n narrow) PCIBandwidth(*verbs.Device) float64 { return n.link }

// TestPriority checks that the priority of an interface is that of its adapter model, if it is a
// known one.
func TestPriority(t *testing.T) {
	for _, c := range []struct {
		kind *verbstest.MLX5
		want uint8
	}{{nil, 0}, {&verbstest.MLX5{}, 38}} {
		k := verbstest.NewFabric().Add(verbstest.Config{Name: "rxe0", MLX5: c.kind})
		i, err := opened(t, narrow{k, math.Inf(1)})
		if err != nil {
			t.Fatal(err)
		}
		if got := i.Attr().Perf.Priority; got != c.want {
			t.Errorf("%+v: priority %d, want %d", c.kind, got, c.want)
		}
	}
}

// TestNarrowLink checks that an interface announces at most the bandwidth of its device's PCI link.
func TestNarrowLink(t *testing.T) {
	bandwidth := func(link float64) float64 {
		w, err := uct.NewWorker()
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		md := open(t, ib.NewComponent("ib", narrow{verbstest.New(), link}))
		i, err := md.OpenIface(w, uct.IfaceParams{Transport: "ud_verbs", Device: "rxe0:1"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer i.Close()
		return i.Attr().Perf.BandwidthShared
	}
	port := bandwidth(math.Inf(1))
	if port <= 0 || math.IsInf(port, 1) {
		t.Fatalf("%v bytes per second", port)
	}
	for _, link := range []float64{port / 2, port, 2 * port} {
		if got, want := bandwidth(link), min(link, port); got != want {
			t.Errorf("a port of %v behind a link of %v: %v bytes per second, want %v", port, link, got, want)
		}
	}
}
