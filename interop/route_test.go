//go:build linux

package interop

import (
	"net/netip"
	"strings"
)

// route is how the two peers of a pair reach each other.
type route struct {
	name    string
	tls     string // UCX_TLS of the Go side, and of the other if both is set
	both    bool
	devices string    // UCX_NET_DEVICES of both sides
	across  string    // that of the other side, if it has a device of its own
	more    []string  // additional environment of both sides
	rdma    bool      // over RDMA devices
	hosts   [2]string // addresses to listen at, of Go and the other side, if not loopback
}

// host returns the address at which a side listens.
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

// network returns a route over network devices. The other side enables all its transports and must
// choose the common one.
func network(d device) route { return route{name: d.name, tls: "tcp", devices: d.list} }

// Routes within a machine. cma carries no messages by itself. With the last one, both sides choose
// among all their transports.
var (
	posix         = route{name: "posix", tls: "posix", both: true}
	sysv          = route{name: "sysv", tls: "sysv", both: true}
	posixCMA      = route{name: "cma", tls: "posix,cma", both: true}
	tcpCMA        = route{name: "tcp+cma", tls: "tcp,cma", both: true, devices: "lo"} // wireup over the network
	selfShared    = route{name: "self+shm", tls: "self,shm", both: true}
	allTransports = route{name: "all"}
)

// posixFiles is posix with shared memory in files of /dev/shm.
var posixFiles = route{name: "posix files", tls: "posix", both: true, more: []string{"UCX_POSIX_USE_PROC_LINK=n"}}

var sharedRoutes = []route{posix, sysv, posixCMA, tcpCMA, selfShared, allTransports}

// lo is the network of the loopback device.
var lo = network(device{"lo", "lo"})

// isNetwork reports whether all transports use network devices.
func (r route) isNetwork() bool { return r.rdma || strings.HasPrefix(r.tls, "tcp") }

// env returns the environment of one of the two sides.
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

// announce is needed by C in error mode peer: its shared memory handles failures of peers only on
// request.
var announce = []string{"UCX_POSIX_ERROR_HANDLING=y", "UCX_SYSV_ERROR_HANDLING=y"}

// errorEnv returns the environment of both sides for an error handling mode.
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

// envToward returns the environment that a program needs to talk to another one. Go must know about
// C releases with short rings in shared memory.
func (p program) envToward(other program) []string {
	if p.ours && other.shortRings() {
		return append([]string{"UCX_PEER_RELEASE=1.13"}, p.env...)
	}
	return p.env
}

// shortRings reports whether a release of C needs UCX_PEER_RELEASE=1.13.
func (p program) shortRings() bool {
	switch majorMinor(p.name) {
	case "1.13", "1.14", "1.15":
		return !p.ours
	}
	return false
}

// otherEngine is the setting that makes C use its protocol engine that is not the default.
func (p program) otherEngine() setting {
	if p.shortRings() {
		return setting{name: "proto=y", theirs: []string{"UCX_PROTO_ENABLE=y"}}
	}
	return setting{name: "proto=n", theirs: []string{"UCX_PROTO_ENABLE=n"}}
}
