//go:build linux

package interop

import (
	"os"
	"testing"

	"github.com/ucx-go/ucx/internal/rdmatest"
)

// Over RDMA devices the operations are those of the networks. The two sides have a
// device each where there are two that reach each other, which is so in the virtual
// machine (scripts/vm): rxe0 and rxe1 on the ends of a veth pair. On lo, and on a machine
// with a device of its own, they share one.

// rdmaDevices are UCX_NET_DEVICES of our side and of the other.
func rdmaDevices(t *testing.T) (ours, theirs string) {
	t.Helper()
	if os.Getenv("VM_NET") == "veth" {
		return "rxe0:1", "rxe1:1"
	}
	name := rdmatest.Device(t) + ":1"
	return name, name
}

// rdmaRoute is a route over RDMA devices by the transports that tls names, which hold
// for both sides: in one machine they would find a shorter way.
func rdmaRoute(t *testing.T, tls string) route {
	t.Helper()
	ours, theirs := rdmaDevices(t)
	return route{name: tls, tls: tls, both: true, devices: ours, across: theirs, rdma: true}
}

// The transports of RDMA as their users name them. rc_v is rc_verbs, with ud_verbs to find
// each other; ib is all there is.
const (
	reliable = "rc_v"
	datagram = "ud_v"
	anyIB    = "ib"
)

// onMachine is a place that is the machine itself: RDMA devices of soft-RoCE are in no
// other namespace.
func onMachine() *place {
	p, _ := serve(func() error { return nil }) // which does not fail
	return p
}

// rdmaEnv is the environment that a program needs to be reached over RDMA by an IPv4
// address of the network below: 1.13 takes the packets of datagrams from there for
// others, unless it is told not to look (uct_ud_iface_check_grh, ud_iface.h).
func (p program) rdmaEnv() []string {
	if majorMinor(p.name) == "1.13" && !p.ours {
		return []string{"UCX_UD_VERBS_ETH_DGID_CHECK=n"}
	}
	return nil
}
