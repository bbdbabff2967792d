//go:build linux

package interop

import (
	"os"
	"testing"
)

// perftestShort is the tests of TestRDMAPerftest's short form, by transport.
var perftestShort = map[string][]perfTest{
	reliable: {{"tag_lat", false}, {"ucp_put_lat", false}, {"ucp_get", false}, {"ucp_fadd", true}},
	datagram: {{"tag_bw", false}, {"ucp_am_lat", false}, {"stream_lat", false}},
}

// TestRDMAPerftest runs ucx_perftest of Go with that of C, in both roles, over RDMA devices. The
// counts are for checking data, not for timing.
func TestRDMAPerftest(t *testing.T) {
	runs, names := []perfCount{{8, 100}}, []string{reliable, datagram}
	if rdmaLong {
		runs, names = []perfCount{{8, 1000}, {65536, 100}, {1 << 20, 10}}, rdmaTransports
	}
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		if theirs.ours && !rdmaLong {
			return
		}
		m := newMatrix("ucx_perftest, " + ours.name + " with " + theirs.name)
		for _, over := range rdmaRoutes(t, names...) {
			tests := perftestShort[over.name]
			if rdmaLong {
				tests = perftests
			}
			t.Run(over.name, func(t *testing.T) { perfColumn(t, where, m, ours, theirs, over, tests, runs) })
		}
		m.print(os.Stdout)
	})
}

// TestRDMAHelloWorld talks to ucp_hello_world over RDMA devices, by worker addresses. It polls:
// when C sleeps over soft-RoCE, even with C, it may miss for ever what arrived while it was arming
// (uct_rc_iface_event_arm, uct_ud_iface_event_arm).
func TestRDMAHelloWorld(t *testing.T) {
	eachRDMAExample(t, "ucp_hello_world", rdmaRoute(t, anyIB), func(t *testing.T, e example) {
		ways := []helloWay{{"-b", 100_000}}
		if rdmaLong {
			ways = append(ways, helloWay{"-b", 16}, helloWay{"-b", 3_000_000})
		}
		e.helloWorld(t, ways)
	})
}

// TestRDMAClientServer talks to ucp_client_server by the RDMA connection manager.
func TestRDMAClientServer(t *testing.T) {
	routes := rdmaDialingRoutes(t)
	eachRDMAExample(t, "ucp_client_server", routes[len(routes)-1], func(t *testing.T, e example) {
		sizes := []clientSize{{"3", "40000"}}
		if rdmaLong {
			sizes = append(sizes, clientSize{"1", "16"}, clientSize{"1", "2000000"})
		}
		e.clientServer(t, sizes)
	})
}

// eachRDMAExample runs a test with one of C's examples of each installation.
func eachRDMAExample(t *testing.T, name string, over route, run func(t *testing.T, e example)) {
	t.Helper()
	where := onMachine()
	defer where.close()
	for _, e := range examples(t, where, name) {
		e.program = forRDMA([]program{e.program})[0]
		e.over = over
		run(t, e)
	}
}
