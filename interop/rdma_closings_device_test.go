//go:build linux

package interop

import "testing"

// soonTold are time limits by which a side soon learns that the other's end is gone, which it
// does by its device's retries where nothing was said over the connection manager.
var soonTold = []string{"UCX_UD_VERBS_TIMEOUT=5s", "UCX_RC_VERBS_TIMEOUT=200ms"}

// TestRDMAClosings: both sides of a connection by socket address close it behind the last
// message, in either order, as TestClosings does without devices.
func TestRDMAClosings(t *testing.T) {
	count := 6
	if rdmaLong {
		count = 100
	}
	eachRDMADialing(t, func(t *testing.T, where *place, ours, theirs program, weServe bool, over route) {
		if over.tls != reliable && over.tls != datagram {
			return
		}
		d, err := startDialing(where, ours, theirs, weServe, setting{mode: "peer", both: soonTold}, over)
		if err != nil {
			t.Fatal(err)
		}
		defer d.report(t)
		if err := d.closings(t, count); err != nil {
			t.Fatal(err)
		}
	})
}
