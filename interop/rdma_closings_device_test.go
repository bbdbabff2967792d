//go:build linux

package interop

import "testing"

// rdmaEndings are ways to end a connection over RDMA devices, and how the devices are set for them.
type rdmaEndings struct {
	name string
	env  []string
	list []ending
}

// rdmaClosings are the ways to end a connection, count times by both sides at about the same time.
// Where a side closes with force, nobody acknowledges what the other has sent and is flushing
// behind. That one waits for its device, whatever the connection manager says (of C UCX
// ucp_ep_cm_remote_disconnect_progress, wireup_cm.c), and soft-RoCE goes on for ever with the seven
// retries that are the default, until a keepalive ends it. So there are six for those.
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

// shared are those that remain of a list where roles and transports share it.
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

// TestRDMAClosings: both sides of a connection by socket address close it behind the last
// message, in either order, as TestClosings does without devices. In the short form the two
// roles share the orderly ways, and so do the transports.
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
