//go:build linux

package interop

import (
	"os"
	"slices"
	"testing"

	"github.com/ucx-go/ucx/internal/rdmatest"
)

// Over RDMA devices the operations are those of the networks. The two sides have a
// device each where there are two that reach each other, which is so in the virtual
// machine (scripts/vm): rxe0 and rxe1 on the ends of a veth pair. On lo, and on a machine
// with a device of its own, they share one.

// rdmaSide is what a side uses: its value of UCX_NET_DEVICES, and the address of the
// network device below.
type rdmaSide struct{ device, host string }

// rdmaSides are those of our side and of the other.
func rdmaSides(t *testing.T) (ours, theirs rdmaSide) {
	t.Helper()
	name := rdmatest.Device(t) + ":1"
	switch os.Getenv("VM_NET") {
	case "veth":
		return rdmaSide{"rxe0:1", "10.9.0.1"}, rdmaSide{"rxe1:1", "10.9.0.2"}
	case "lo":
		return rdmaSide{name, "127.0.0.1"}, rdmaSide{name, "127.0.0.1"}
	case "nic": // the first machine has the tests
		return rdmaSide{name, "10.9.0.1"}, rdmaSide{name, "10.9.0.2"}
	}
	return rdmaSide{name, ""}, rdmaSide{name, ""}
}

// The transports of RDMA as their users name them: rc_v is rc_verbs, with ud_verbs to find
// each other; ib is all there is.
const (
	reliable = "rc_v"
	datagram = "ud_v"
	anyIB    = "ib"
)

var rdmaTransports = []string{reliable, datagram, anyIB}

// rdmaRoute is a route over RDMA devices by the transports that tls names, which hold
// for both sides: in one machine they would find a shorter way.
func rdmaRoute(t *testing.T, tls string) route {
	t.Helper()
	ours, theirs := rdmaSides(t)
	return route{name: tls, tls: tls, both: true, devices: ours.device, across: theirs.device, rdma: true, more: []string{unhurried}}
}

// unhurried lets soft-RoCE be slow. Its timer runs from the request on, however many packets of
// the answer come, and begins anew what is under way: with a second, our six retries are gone
// when a machine with other things to do needs that long for some reads.
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

// Settings that make a difference over RDMA devices, beside the defaults.
var rdmaSettings = []setting{
	{name: "error mode peer", mode: "peer"},
	{name: "rndv=0", both: []string{"UCX_RNDV_THRESH=0"}},
	{name: "rndv=inf", both: []string{"UCX_RNDV_THRESH=inf"}},
	{name: "rndv put", both: []string{"UCX_RNDV_THRESH=0", "UCX_RNDV_SCHEME=put_zcopy"}},
	{name: "rndv get", both: []string{"UCX_RNDV_THRESH=0", "UCX_RNDV_SCHEME=get_zcopy"}},
	{name: "address v2", theirs: []string{"UCX_ADDRESS_VERSION=v2"}},
	{name: "both address v2", both: []string{"UCX_ADDRESS_VERSION=v2"}},
	// The first GID is one of IPv6, link-local.
	{name: "IPv6", both: []string{"UCX_IB_GID_INDEX=0"}},
	{name: "MTU 1024", both: []string{"UCX_RC_VERBS_PATH_MTU=1024", "UCX_UD_VERBS_PATH_MTU=1024"}},
	{name: "short queues", both: []string{
		"UCX_RC_VERBS_TX_QUEUE_LEN=2", "UCX_RC_VERBS_FC_WND_SIZE=8", "UCX_RC_VERBS_RX_QUEUE_LEN=16",
		"UCX_UD_VERBS_TX_QUEUE_LEN=2", "UCX_UD_VERBS_MAX_WINDOW=4"}},
}

// rdmaGroups are the columns: reliable connections and datagrams with the defaults, and with
// C all there is in error mode peer; in the long form all with all.
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

// rdmaSizes are of one packet, several, and a rendezvous.
func rdmaSizes() []int {
	if rdmaLong {
		return smaller
	}
	return []int{8, 8192, 1 << 17}
}

// oneOfEach are operations of each kind, for places where the way matters more than what
// goes there.
var oneOfEach = []string{"send sync", "iov sync", "burst", "put", "get", "atomics", "am answer", "am kept rndv", "stream pieces"}

// runSome runs those in both directions, with one size and one with which most of them
// are rendezvous.
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

// onMachine is a place that is the machine itself: RDMA devices of soft-RoCE are in no
// other namespace.
func onMachine() *place {
	p, _ := serve(func() error { return nil }) // which does not fail
	return p
}

// forRDMA are programs with the environment that they need over RDMA. 1.13 takes the
// packets of datagrams over IPv4 for others', unless it is told not to look
// (uct_ud_iface_check_grh, ud_iface.h). 1.22 in its fence reads memory by a key that
// nobody has made where the device has none for that, which ends the connection
// (uct_rc_verbs_ep_flush_remote, rc_verbs_ep.c), unless its fence is the weak one.
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

// eachRDMA runs a test with us and each C UCX. In the long form it also runs it with us
// alone, for which the devices have suites of their own, and with C and C: what fails there
// is no matter of ours.
func eachRDMA(t *testing.T, run func(t *testing.T, where *place, ours, theirs program)) {
	t.Helper()
	overRDMA(t, rdmaLong, run)
}

// overRDMA is eachRDMA, and says whether us alone is among them if there is a C UCX.
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

// rdmaDialingRoutes are those that the RDMA connection manager alone finds: without it there
// is nothing that listens.
func rdmaDialingRoutes(t *testing.T) []route {
	t.Helper()
	ours, theirs := rdmaSides(t)
	// With rc_verbs alone nobody has to be found by datagrams; with rc_v 1.22 agrees on lanes of
	// all devices by those, and wants as many as it can have.
	list := rdmaRoutes(t, "rc_verbs", reliable, datagram, anyIB)
	for i := range list {
		list[i].hosts = [2]string{ours.host, theirs.host}
		list[i].more = append(list[i].more, "UCX_SOCKADDR_TLS_PRIORITY=rdmacm")
	}
	return list
}

// eachRDMADialing runs a test with each two programs, in both roles.
func eachRDMADialing(t *testing.T, run func(t *testing.T, where *place, ours, theirs program, weServe bool, over route)) {
	t.Helper()
	overRDMADialing(t, rdmaLong, run)
}

// overRDMADialing is eachRDMADialing, and says whether us alone is among them if there is a C
// UCX.
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
