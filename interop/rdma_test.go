//go:build linux

package interop

import (
	"os"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/rdmatest"
)

// Over RDMA devices the operations are those of the networks. The two sides have a device each if
// two devices reach each other, as in the virtual machine (scripts/vm): rxe0 and rxe1 on the two
// ends of a veth pair. On lo, and on a machine with one device, they share it.

// rdmaSide is the device of a side: its value of UCX_NET_DEVICES, and the address of the network
// device below.
type rdmaSide struct{ device, host string }

// rdmaSides returns those of the Go side and of the other.
func rdmaSides(t *testing.T) (ours, theirs rdmaSide) {
	t.Helper()
	name := rdmatest.Device(t) + ":1"
	switch os.Getenv("VM_NET") {
	case "veth":
		return rdmaSide{"rxe0:1", "10.9.0.1"}, rdmaSide{"rxe1:1", "10.9.0.2"}
	case "lo":
		return rdmaSide{name, "127.0.0.1"}, rdmaSide{name, "127.0.0.1"}
	case "nic": // the first machine runs the tests
		return rdmaSide{name, "10.9.0.1"}, rdmaSide{name, "10.9.0.2"}
	}
	return rdmaSide{name, ""}, rdmaSide{name, ""}
}

// The transports of RDMA by the names that users write: rc_v is rc_verbs, with ud_verbs for wireup;
// ib is all of them.
const (
	reliable = "rc_v"
	datagram = "ud_v"
	anyIB    = "ib"
)

var rdmaTransports = []string{reliable, datagram, anyIB}

// rdmaRoute is a route over RDMA devices with the transports of tls on both sides; otherwise, on
// one machine, they would choose a faster one.
func rdmaRoute(t *testing.T, tls string) route {
	t.Helper()
	ours, theirs := rdmaSides(t)
	return route{name: tls, tls: tls, both: true, devices: ours.device, across: theirs.device, rdma: true, more: []string{unhurried}}
}

// unhurried allows soft-RoCE to be slow. Its timer runs from a request to the end of the answer,
// whatever packets come meanwhile, and restarts the operation: with one second, all six retries
// would be used up when a busy machine needs that long for some reads.
const unhurried = "UCX_RC_VERBS_TIMEOUT=4s"

func rdmaRoutes(t *testing.T, names ...string) (list []route) {
	t.Helper()
	for _, name := range names {
		list = append(list, rdmaRoute(t, name))
	}
	return list
}

// rdmaLong asks for the long form of tests: make test-rxe-long.
var rdmaLong = os.Getenv("RXE_LONG") != ""

// Settings that matter over RDMA devices, besides the defaults.
var rdmaSettings = []setting{
	{name: "error mode peer", mode: "peer"},
	{name: "rndv=0", both: []string{"UCX_RNDV_THRESH=0"}},
	{name: "rndv=inf", both: []string{"UCX_RNDV_THRESH=inf"}},
	{name: "rndv put", both: []string{"UCX_RNDV_THRESH=0", "UCX_RNDV_SCHEME=put_zcopy"}},
	{name: "rndv get", both: []string{"UCX_RNDV_THRESH=0", "UCX_RNDV_SCHEME=get_zcopy"}},
	{name: "address v2", theirs: []string{"UCX_ADDRESS_VERSION=v2"}},
	{name: "both address v2", both: []string{"UCX_ADDRESS_VERSION=v2"}},
	// The first GID is a link-local one of IPv6.
	{name: "IPv6", both: []string{"UCX_IB_GID_INDEX=0"}},
	{name: "MTU 1024", both: []string{"UCX_RC_VERBS_PATH_MTU=1024", "UCX_UD_VERBS_PATH_MTU=1024"}},
	{name: "short queues", both: []string{
		"UCX_RC_VERBS_TX_QUEUE_LEN=2", "UCX_RC_VERBS_FC_WND_SIZE=8", "UCX_RC_VERBS_RX_QUEUE_LEN=16",
		"UCX_UD_VERBS_TX_QUEUE_LEN=2", "UCX_UD_VERBS_MAX_WINDOW=4"}},
}

// rdmaGroups returns the columns: reliable connections and datagrams with the defaults, and with C
// all transports in error mode peer. In the long form each route has all settings.
func rdmaGroups(t *testing.T, theirs program) []group {
	t.Helper()
	routes := rdmaRoutes(t, rdmaTransports...)
	switch {
	case rdmaLong:
	case theirs.ours:
		return []group{{settings[0], routes[:2]}}
	default:
		return []group{{settings[0], routes[:2]}, {rdmaSettings[0], routes[2:]}}
	}
	groups := []group{{settings[0], routes}}
	for _, s := range append(slices.Clone(rdmaSettings), theirs.otherEngine()) {
		groups = append(groups, group{s, routes})
	}
	return groups
}

// rdmaSizes are sizes of one packet, of several, and for a rendezvous.
func rdmaSizes() []int {
	if rdmaLong {
		return smaller
	}
	return []int{8, 8192, 1 << 17}
}

// oneOfEach are operations of each kind, for tests of a route rather than of operations.
var oneOfEach = []string{"send sync", "iov sync", "burst", "put", "get", "atomics", "am answer", "am kept rndv", "stream pieces"}

// runSome runs oneOfEach in both directions, with one size and one for which most of them use
// rendezvous.
func runSome(t *testing.T, where *place, ours, theirs program, groups []group, size int) {
	t.Helper()
	m := newMatrix(ours.name + " with " + theirs.name)
	for _, g := range groups {
		for _, over := range g.routes {
			t.Run(over.name, func(t *testing.T) {
				r := runner{t: t, where: where, ours: ours, theirs: theirs, route: over, matrix: m,
					setting: g.setting, operations: named(oneOfEach...), half: sparse}
				r.run([]int{size, 1 << 17})
			})
		}
	}
	m.print(os.Stdout)
}

// onMachine is the place of the machine itself: soft-RoCE devices are in no other namespace.
func onMachine() *place {
	p, _ := serve(func() error { return nil }) // cannot fail
	return p
}

// forRDMA adds the environment that programs need over RDMA. 1.13 drops datagrams over IPv4 as
// those of other receivers, unless that check is off (uct_ud_iface_check_grh, ud_iface.h). The
// fence of 1.22 reads memory with a key that does not exist on this device, which ends the
// connection (uct_rc_verbs_ep_flush_remote, rc_verbs_ep.c), unless the fence is weak.
func forRDMA(list []program) []program {
	list = slices.Clone(list)
	for i, p := range list {
		switch majorMinor(p.name) {
		case "1.13":
			list[i].env = slices.Concat(p.env, []string{"UCX_UD_VERBS_ETH_DGID_CHECK=n"})
		case "1.22":
			list[i].env = slices.Concat(p.env, []string{"UCX_FENCE_MODE=weak"})
		}
	}
	return list
}

// eachRDMA runs a test with Go and each C UCX. The long form adds Go with Go, which the suites of
// the devices cover, too, and C with C, whose failures are not those of this module.
func eachRDMA(t *testing.T, run func(t *testing.T, where *place, ours, theirs program)) {
	t.Helper()
	overRDMA(t, rdmaLong, run)
}

// overRDMA is eachRDMA, with Go and Go if alone is true, or if there is no C UCX.
func overRDMA(t *testing.T, alone bool, run func(t *testing.T, where *place, ours, theirs program)) {
	t.Helper()
	c := forRDMA(buildC(t))
	ours := buildGo(t)
	where := onMachine()
	defer where.close()
	if os.Getenv("VM_NET") == "nic" {
		_, theirs := rdmaSides(t)
		where.other = newFarPlace(theirs.host)
		defer where.other.close()
	}
	both := func(a, b program) {
		t.Run(a.name+" with "+b.name, func(t *testing.T) { run(t, where, a, b) })
	}
	if alone || len(c) == 0 {
		both(ours, ours)
	}
	for i, theirs := range c {
		both(ours, theirs)
		for _, other := range c[i:] {
			if rdmaLong {
				both(theirs, other)
			}
		}
	}
}

// rdmaDialingRoutes are the routes that connect by the RDMA connection manager alone.
func rdmaDialingRoutes(t *testing.T) []route {
	t.Helper()
	ours, theirs := rdmaSides(t)
	// With rc_verbs alone no datagrams are needed for wireup. With rc_v, 1.22 uses them to agree on
	// lanes over all devices, as many as possible.
	list := rdmaRoutes(t, "rc_verbs", reliable, datagram, anyIB)
	for i := range list {
		list[i].hosts = [2]string{ours.host, theirs.host}
		list[i].more = append(list[i].more, "UCX_SOCKADDR_TLS_PRIORITY=rdmacm")
	}
	return list
}

// eachRDMADialing runs a test with every two programs, in both roles.
func eachRDMADialing(t *testing.T, run func(t *testing.T, where *place, ours, theirs program, weServe bool, over route)) {
	t.Helper()
	overRDMADialing(t, rdmaLong, run)
}

// overRDMADialing is eachRDMADialing, with Go and Go if alone is true, or if there is no C UCX.
func overRDMADialing(t *testing.T, alone bool, run func(t *testing.T, where *place, ours, theirs program, weServe bool, over route)) {
	t.Helper()
	routes := rdmaDialingRoutes(t)
	overRDMA(t, alone, func(t *testing.T, where *place, ours, theirs program) {
		for _, over := range routes {
			for name, weServe := range map[string]bool{"we serve": true, "we connect": false} {
				if ours.name == theirs.name && !weServe {
					continue
				}
				t.Run(over.name+"/"+name, func(t *testing.T) { run(t, where, ours, theirs, weServe, over) })
			}
		}
	})
}
