//go:build linux

package interop

import (
	"testing"
	"time"
)

// TestRDMALinger: two peers connect simultaneously, so that one closes its surplus connection, and
// then exchange only keepalive probes. Both must still be connected after the time that closed
// connections linger. It runs in the long form, as it takes that time.
func TestRDMALinger(t *testing.T) {
	if !rdmaLong {
		t.Skip("takes minutes: make test-rxe-long")
	}
	const linger = 20 * time.Second
	limits := []string{"UCX_UD_VERBS_LINGER_TIMEOUT=20s", "UCX_UD_VERBS_TIMEOUT=15s", "UCX_KEEPALIVE_INTERVAL=1s"}
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		if !ours.ours {
			return
		}
		for _, over := range rdmaRoutes(t, rdmaTransports...) {
			t.Run(over.name, func(t *testing.T) {
				p, err := newPair(where, ours, theirs, setting{mode: "peer", both: limits}, over)
				if err != nil {
					t.Fatal(err)
				}
				defer p.report(t)
				p.meet(t)
				for end := time.Now().Add(3 * linger); time.Now().Before(end); {
					for _, side := range []*peer{p.ours, p.theirs} {
						if err := side.do("progress", 50); err != nil {
							t.Fatal(err)
						}
						if err := side.unfailed(); err != nil {
							t.Fatal(err)
						}
					}
				}
				p.meet(t)
				if err := p.close("peer"); err != nil {
					t.Error(err)
				}
			})
		}
	})
}
