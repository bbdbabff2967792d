//go:build linux

package interop

import (
	"slices"
	"testing"
)

// TestRDMAControl runs C UCX against itself over RDMA devices: what fails here is
// no matter of ours.
func TestRDMAControl(t *testing.T) {
	c := buildC(t, t.TempDir())
	where := onMachine()
	defer where.close()
	for _, a := range c {
		for _, b := range c {
			a.env, b.env = slices.Concat(a.env, a.rdmaEnv()), slices.Concat(b.env, b.rdmaEnv())
			t.Run(a.name+" with "+b.name, func(t *testing.T) {
				groups := []group{{settings[0], []route{rdmaRoute(t, reliable), rdmaRoute(t, datagram), rdmaRoute(t, anyIB)}}}
				runMatrix(t, where, a, b, groups, []int{8, 65536})
			})
		}
	}
}
