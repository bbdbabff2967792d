//go:build linux

package verbs_test

import (
	"testing"

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

// TestMLX5 is the suite on devices as of mlx5_ib.
func TestMLX5(t *testing.T) {
	for _, m := range modes {
		t.Run(m.name, func(t *testing.T) {
			for _, s := range suite {
				t.Run(s.name, func(t *testing.T) {
					ucttest.NoLeaks(t)
					s.test(t, mlx5Rig(t, m.cfg))
				})
			}
		})
	}
}

// mlx5Rig is a device that does its work behind the back of who rings, since nobody is
// called then.
func mlx5Rig(t *testing.T, cfg verbstest.MLX5) *rig {
	t.Helper()
	n := verbstest.NewFabric()
	r := kernelRig(t, n.Add(verbstest.Config{MLX5: &cfg}))
	t.Cleanup(n.Run())
	return r
}
