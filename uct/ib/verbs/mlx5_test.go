//go:build linux

package verbs_test

import (
	"os"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/ib/verbs/verbstest"
	"github.com/ucx-go/ucx/uct/ucttest"
)

// modes are the ways in which a device as of mlx5_ib and its kernel can be.
var modes = []struct {
	name string
	cfg  verbstest.MLX5
}{
	{"dynamic", verbstest.MLX5{}},
	{"dynamic, version 0", verbstest.MLX5{Version0: true}},
	{"static", verbstest.MLX5{StaticUARs: true}},
	{"static, version 0", verbstest.MLX5{StaticUARs: true, Version0: true}},
}

// TestMLX5 is the suite on devices as of mlx5_ib, in each mode.
func TestMLX5(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			runSuite(t, func(t *testing.T) *rig { return mlx5Rig(t, m.cfg) })
		})
	}
}

// TestMLX5Pairs is the suite with the other end of each pair at another device.
func TestMLX5Pairs(t *testing.T) {
	infiniBand := []verbstest.Port{{InfiniBand: true}}
	for _, c := range []struct {
		name string
		env  string
		cfg  verbstest.Config
	}{
		{"dynamic", "", verbstest.Config{MLX5: &verbstest.MLX5{}}},
		{"InfiniBand", "", verbstest.Config{MLX5: &verbstest.MLX5{StaticUARs: true}, Ports: infiniBand}},
		{"dynamic, BlueFlame", "1", verbstest.Config{MLX5: &verbstest.MLX5{}}},
		{"static, BlueFlame", "1", verbstest.Config{MLX5: &verbstest.MLX5{StaticUARs: true}}},
		{"no write combining", "1", verbstest.Config{MLX5: &verbstest.MLX5{NoWC: true}}},
		{"old", "", verbstest.Config{MLX5: &verbstest.MLX5{OldUARs: true, Answer: 56}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("VERBS_BLUEFLAME", c.env)
			runSuite(t, func(t *testing.T) *rig { return mlx5Rigs(t, c.cfg, c.cfg) })
		})
	}
}

// TestMLX5Far is the suite with a device that reaches memory as that of another process.
func TestMLX5Far(t *testing.T) {
	runSuite(t, func(t *testing.T) *rig {
		r := mlx5Rig(t, verbstest.MLX5{})
		r.file = func() verbs.File { return r.kernel.OpenIn(verbstest.Remote(os.Getpid())) }
		return r
	}, "Allocations") // what calls the kernel for each word allocates
}

// runSuite is the suite, but for some tests, on whatever rig there is.
func runSuite(t *testing.T, rig func(*testing.T) *rig, except ...string) {
	for _, s := range suite {
		if slices.Contains(except, s.name) {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			ucttest.NoLeaks(t)
			s.test(t, rig(t))
		})
	}
}

// mlx5Rig is a device as of mlx5_ib.
func mlx5Rig(t *testing.T, cfg verbstest.MLX5) *rig {
	t.Helper()
	return mlx5Rigs(t, verbstest.Config{MLX5: &cfg})
}

// mlx5Rigs is one device, or one of two, that does its work behind the back of who rings,
// since nobody is called then.
func mlx5Rigs(t *testing.T, cfg ...verbstest.Config) *rig {
	t.Helper()
	n := verbstest.NewFabric()
	var r *rig
	if len(cfg) == 2 {
		r = fabricRigs(t, n, cfg[0], cfg[1])
	} else {
		r = kernelRig(t, n.Add(cfg[0]))
	}
	t.Cleanup(n.Run())
	return r
}
