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

// TestRDMADialing is what else may become of a client over RDMA devices: rejected, one of
// many, one whom nobody hears.
func TestRDMADialing(t *testing.T) {
	eachRDMADialing(t, func(t *testing.T, where *place, ours, theirs program, weServe bool, over route) {
		if over.tls != anyIB && !rdmaLong {
			return
		}
		many := 10
		if rdmaLong {
			many = 50
		}
		for name, run := range map[string]func(d *dialing) error{
			"rejected": (*dialing).rejected,
			"many":     func(d *dialing) error { return d.many(many) },
		} {
			t.Run(name, func(t *testing.T) {
				d, err := startDialing(where, ours, theirs, weServe, setting{mode: "peer"}, over)
				if err != nil {
					t.Fatal(err)
				}
				defer d.report(t)
				if err := run(d); err != nil {
					t.Fatal(err)
				}
			})
		}
		t.Run("nobody listens", func(t *testing.T) { nobodyListens(t, where, ours, theirs, weServe, over) })
	})
}
