//go:build linux

package interop

import (
	"net/netip"
	"strings"
)

// route is how the two peers of a pair are to reach each other.
type route struct {
	name    string
	tls     string // UCX_TLS of our side, and of the other if both is set
	both    bool
	devices string    // UCX_NET_DEVICES of both
	across  string    // and of the other side, if it has a device of its own
	more    []string  // further environment of both
	rdma    bool      // over RDMA devices
	hosts   [2]string // where our side listens, and the other, if not on loopback
}

// host is the address on which one of the two sides listens.
func (r route) host(ourSide bool) netip.Addr {
	host := r.hosts[1]
	if ourSide {
		host = r.hosts[0]
	}
	if host == "" {
		host = "127.0.0.1"
	}
	return netip.MustParseAddr(host)
}

// network is a route over network devices. The other side has all its transports
// and must choose the common one.
func network(d device) route { return route{name: d.name, tls: "tcp", devices: d.list} }

// Routes within a machine. Cma carries no messages by itself. The last lets both
// sides choose among all they have.
var (
	posix         = route{name: "posix", tls: "posix", both: true}
	sysv          = route{name: "sysv", tls: "sysv", both: true}
	posixCMA      = route{name: "cma", tls: "posix,cma", both: true}
	tcpCMA        = route{name: "tcp+cma", tls: "tcp,cma", both: true, devices: "lo"} // wireup goes over the network
	selfShared    = route{name: "self+shm", tls: "self,shm", both: true}
	allTransports = route{name: "all"}
)

// posixFiles is posix with shared memory that has names in /dev/shm.
var posixFiles = route{name: "posix files", tls: "posix", both: true, more: []string{"UCX_POSIX_USE_PROC_LINK=n"}}

var sharedRoutes = []route{posix, sysv, posixCMA, tcpCMA, selfShared, allTransports}

// lo is the network of the loopback device.
var lo = network(device{"lo", "lo"})

// isNetwork says that all goes over network devices.
func (r route) isNetwork() bool { return r.rdma || strings.HasPrefix(r.tls, "tcp") }

// env is the environment of one of the two sides.
func (r route) env(ourSide bool) []string {
	var env []string
	if r.tls != "" && (ourSide || r.both) {
		env = append(env, "UCX_TLS="+r.tls)
	}
	switch {
	case r.across != "" && !ourSide:
		env = append(env, "UCX_NET_DEVICES="+r.across)
	case r.devices != "":
		env = append(env, "UCX_NET_DEVICES="+r.devices)
	}
	return append(env, r.more...)
}

// announce is what C needs in peer error mode: its shared memory does not handle
// failures of peers unless asked to.
var announce = []string{"UCX_POSIX_ERROR_HANDLING=y", "UCX_SYSV_ERROR_HANDLING=y"}

// errorEnv is the environment of both sides for an error handling mode.
func (r route) errorEnv(mode string) []string {
	if mode != "peer" || !r.both || r.rdma {
		return nil
	}
	return announce
}

// majorMinor turns "C 1.13.1 …" into "1.13".
func majorMinor(name string) string {
	release, _, _ := strings.Cut(strings.TrimPrefix(name, "C "), " ")
	if parts := strings.SplitN(release, ".", 3); len(parts) == 3 {
		return parts[0] + "." + parts[1]
	}
	return release
}

// envToward is the environment that a program needs to talk to another. Ours must be
// told of C releases whose shared-memory rings are short.
func (p program) envToward(other program) []string {
	if p.ours && other.shortRings() {
		return append([]string{"UCX_PEER_RELEASE=1.13"}, p.env...)
	}
	return p.env
}

// shortRings tells the releases of C that UCX_PEER_RELEASE=1.13 is for.
func (p program) shortRings() bool {
	switch majorMinor(p.name) {
	case "1.13", "1.14", "1.15":
		return !p.ours
	}
	return false
}

// otherEngine is the setting that makes C use the protocol engine that is not
// its default.
func (p program) otherEngine() setting {
	if p.shortRings() {
		return setting{name: "proto=y", theirs: []string{"UCX_PROTO_ENABLE=y"}}
	}
	return setting{name: "proto=n", theirs: []string{"UCX_PROTO_ENABLE=n"}}
}
