//go:build linux

package interop

import "testing"

// rdmaEndings are ways to end a connection over RDMA devices, with settings of the devices.
type rdmaEndings struct {
	name string
	env  []string
	list []ending
}

// rdmaClosings returns the ways to end a connection, count of them with simultaneous closes. After
// a forced close the other side's flush gets no acknowledgements. It waits for its device, whatever
// the connection manager reports (of C UCX ucp_ep_cm_remote_disconnect_progress, wireup_cm.c), and
// with the default of seven retries soft-RoCE never gives up until a keepalive fails the endpoint.
// So forced closes have six.
func rdmaClosings(count int) (orderly, forced rdmaEndings) {
	soon := "UCX_RC_VERBS_TIMEOUT=1s"
	orderly = rdmaEndings{name: "orderly", env: []string{soon}}
	forced = rdmaEndings{name: "forced", env: []string{soon, "UCX_RC_VERBS_RETRY_COUNT=6"}}
	for _, e := range allEndings(count) {
		part := &orderly
		if e.forced() {
			part = &forced
		}
		part.list = append(part.list, e)
	}
	return orderly, forced
}

// shared returns the part of a list for a role and a transport, if these share it.
func shared(list []ending, weServe bool, over route) (half []ending) {
	role, transport := 0, 0
	if weServe {
		role = 1
	}
	if over.tls == datagram {
		transport = 1
	}
	for i, e := range list {
		if everyOther(i, role, transport) {
			half = append(half, e)
		}
	}
	return half
}

// TestRDMAClosings: both sides of a connection by socket address close it after the last message,
// in either order, as in TestClosings. In the short form the two roles, and the transports, share
// the orderly ways.
func TestRDMAClosings(t *testing.T) {
	count := 6
	if rdmaLong {
		count = 100
	}
	orderly, forced := rdmaClosings(count)
	overRDMADialing(t, true, func(t *testing.T, where *place, ours, theirs program, weServe bool, over route) {
		if !ours.ours || over.tls != reliable && over.tls != datagram {
			return
		}
		for _, part := range []rdmaEndings{orderly, forced} {
			t.Run(part.name, func(t *testing.T) {
				d, err := startDialing(where, ours, theirs, weServe, setting{mode: "peer", both: part.env}, over)
				if err != nil {
					t.Fatal(err)
				}
				defer d.report(t)
				list := part.list
				if sparse && part.name == orderly.name {
					list = shared(list, weServe, over)
				}
				if err := d.closings(t, list); err != nil {
					t.Fatal(err)
				}
			})
		}
	})
}
