//go:build linux

package interop

import (
	"os"
	"testing"
)

// TestRDMAPerftest runs ucx_perftest of each with that of the other, in both roles, over
// RDMA devices. The counts are for data, not for timing.
func TestRDMAPerftest(t *testing.T) {
	tests := []perfTest{{"tag_lat", false}, {"tag_bw", false}, {"ucp_am_lat", false}, {"stream_bw", false},
		{"ucp_put_lat", false}, {"ucp_get", false}, {"ucp_fadd", true}}
	runs := []perfCount{{8, 200}}
	names := []string{anyIB}
	if rdmaLong {
		tests, runs, names = perftests, []perfCount{{8, 1000}, {65536, 100}, {1 << 20, 10}}, rdmaTransports
	}
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		m := newMatrix("ucx_perftest, " + ours.name + " with " + theirs.name)
		for _, over := range rdmaRoutes(t, names...) {
			t.Run(over.name, func(t *testing.T) { perfColumn(t, where, m, ours, theirs, over, tests, runs) })
		}
		m.print(os.Stdout)
	})
}
