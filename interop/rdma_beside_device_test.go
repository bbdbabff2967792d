//go:build linux

package interop

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestRDMABeside lets both sides choose among RDMA devices and other transports of the machine:
// reliable connections and TCP, all networks with all devices, and all of C's defaults.
func TestRDMABeside(t *testing.T) {
	onVeth(t)
	ours, theirs := rdmaSides(t)
	slowly := []string{unhurried}
	routes := []route{
		{name: "rc,tcp", tls: "rc,tcp", both: true, devices: ours.device + ",veth0", across: theirs.device + ",veth1", rdma: true, more: slowly},
		{name: allTransports.name, more: slowly},
		{name: "networks", tls: "ib,tcp", both: true, rdma: true, more: slowly},
	}
	if !rdmaLong {
		routes = routes[:2]
	}
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		runFew(t, where, ours, theirs, settings[0], routes)
		if rdmaLong {
			runFew(t, where, ours, theirs, rdmaSettings[0], routes)
		}
	})
}

// TestRDMALinkLocal uses the first GID of each device, one of IPv6. C 1.13 then accepts datagrams
// without the setting of forRDMA.
func TestRDMALinkLocal(t *testing.T) {
	onVeth(t)
	first := setting{name: "link-local", both: []string{"UCX_IB_GID_INDEX=0"}}
	routes := rdmaRoutes(t, datagram, reliable)
	if !rdmaLong {
		routes = routes[:1]
	}
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		if !rdmaLong && majorMinor(theirs.name) != "1.13" {
			return // only with the settings of the matrix
		}
		for _, p := range []*program{&ours, &theirs} {
			p.env = slices.DeleteFunc(slices.Clone(p.env), func(v string) bool { return strings.HasPrefix(v, "UCX_UD_VERBS_ETH_DGID_CHECK=") })
		}
		runFew(t, where, ours, theirs, first, routes)
	})
}

// runFew runs a few operations, each with a size of one packet and of several; in the long form one
// of each kind. Go with Go runs in the long form only.
func runFew(t *testing.T, where *place, ours, theirs program, s setting, routes []route) {
	t.Helper()
	list := []string{"send sync", "put", "am answer"}
	switch {
	case rdmaLong:
		list = oneOfEach
	case theirs.ours:
		return
	}
	m := newMatrix(ours.name + " with " + theirs.name)
	for _, over := range routes {
		t.Run(s.name+"/"+over.name, func(t *testing.T) {
			r := runner{t: t, where: where, ours: ours, theirs: theirs, route: over, matrix: m, setting: s, operations: named(list...)}
			r.run([]int{8, 1 << 17})
		})
	}
	m.print(os.Stdout)
}
