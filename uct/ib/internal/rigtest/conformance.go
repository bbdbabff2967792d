//go:build linux

package rigtest

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// Transport is a transport under test.
type Transport struct {
	Name     string
	Silent   bool              // see ucttest.Fixture
	Pairs    []string          // settings of all tests without a kernel
	Skip     map[string]string // tests left out on slow and on mlx5 devices, with the reasons
	Variants []Variant         // the first are the most important ones

	DevicePairs []string // settings of all tests on devices of the kernel
}

// Variant is a configuration in which a transport is tested.
type Variant struct {
	Name   string
	Device verbstest.Config
	Pairs  []string
	Skip   map[string]string // tests of the suite that do not fit, with the reasons
}

// Fixture returns a fixture with hosts on the first device of a network. If a setting has two
// values in pairs, the last one counts.
func (x *Transport) Fixture(t testing.TB, c uct.Component, pairs ...string) ucttest.Fixture {
	t.Helper()
	return ucttest.Fixture{
		Component: c, Transport: x.Name, Silent: x.Silent,
		Config: Settings(t, append(slices.Clone(x.Pairs), pairs...)...),
	}
}

// Conformance runs the suite on a network, without the tests that the parameter skip names.
func (x *Transport) Conformance(t *testing.T, r *Rig, skip map[string]string, pairs ...string) {
	t.Helper()
	f := x.Fixture(t, r, pairs...)
	f.Skip = skip
	ucttest.Run(t, f)
}

// less returns the tests to leave out, which are those in Transport.Skip and in the parameter skip.
func (x *Transport) less(skip map[string]string) map[string]string {
	all := make(map[string]string)
	maps.Copy(all, x.Skip)
	maps.Copy(all, skip)
	return all
}

// ConformanceSlow runs the suite on slow devices, so that many operations are outstanding.
func (x *Transport) ConformanceSlow(t *testing.T) {
	needtest.Goroutines(t)
	for _, w := range x.Variants[:3] {
		for _, pace := range []int{1, 7} {
			t.Run(fmt.Sprintf("%s, %d at a time", w.Name, pace), func(t *testing.T) {
				x.Conformance(t, New(t, w.Device).Slow(pace), x.less(w.Skip), w.Pairs...)
			})
		}
	}
}

// ConformanceMLX5 runs the suite on simulated mlx5 devices, whose doorbells and doorbell records
// are memory.
func (x *Transport) ConformanceMLX5(t *testing.T) {
	needtest.Goroutines(t)
	for i, w := range x.Variants {
		if i >= 3 && w.Name != "InfiniBand" {
			continue
		}
		t.Run(w.Name, func(t *testing.T) {
			w.Device.MLX5 = &verbstest.MLX5{StaticUARs: i%2 == 0, Version0: i == 1}
			x.Conformance(t, New(t, w.Device), x.less(w.Skip), w.Pairs...)
		})
	}
}
