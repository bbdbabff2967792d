//go:build linux

package interop

import "testing"

// TestRDMAMatrix runs every operation over RDMA devices, in both directions.
func TestRDMAMatrix(t *testing.T) {
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		runMatrix(t, where, ours, theirs, rdmaGroups(t, theirs), rdmaSizes())
	})
}

// TestRDMAListener is TestListener over RDMA devices: by their connection manager, whose
// device the route chooses.
func TestRDMAListener(t *testing.T) {
	eachRDMADialing(t, func(t *testing.T, where *place, ours, theirs program, weServe bool, over route) {
		for _, mode := range []string{"none", "peer"} {
			for _, other := range []bool{false, true} {
				t.Run(mode+"/"+map[bool]string{false: "listener's worker", true: "other worker"}[other], func(t *testing.T) {
					d, err := startDialing(where, ours, theirs, weServe, setting{mode: mode}, over)
					if err != nil {
						t.Fatal(err)
					}
					defer d.report(t)
					if err := d.whole(other); err != nil {
						t.Fatal(err)
					}
				})
			}
		}
	})
}
