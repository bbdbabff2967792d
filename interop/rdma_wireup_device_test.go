//go:build linux

package interop

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// received is how many packets a device has received.
func received(t *testing.T, device string) int {
	t.Helper()
	path := "/sys/class/infiniband/" + device + "/ports/1/hw_counters/rcvd_pkts"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return n
}

// TestRDMAKilledInWireup kills the peer when so many packets of ours have come to its device: before
// it has answered the first, when datagrams connect, when the lanes are agreed on, when they
// are connected. Whatever we have begun ends, and our process goes on.
func TestRDMAKilledInWireup(t *testing.T) {
	onVeth(t)
	steps := []int{1, 2, 3, 4, 5, 6, 8, 10, 15}
	if !rdmaLong {
		steps = []int{1, 3, 5}
	}
	env := []string{often, "UCX_UD_VERBS_TIMEOUT=2s", "UCX_RC_VERBS_TIMEOUT=200ms"}
	_, side := rdmaSides(t)
	device, _, _ := strings.Cut(side.device, ":")
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		for _, over := range rdmaRoutes(t, reliable, datagram) {
			for _, step := range steps {
				t.Run(fmt.Sprintf("%s/packet %d", over.name, step), func(t *testing.T) {
					p, err := startApart(where, where.opposite(), ours, theirs, setting{mode: "peer", both: env}, over, over)
					if err != nil {
						t.Fatal(err)
					}
					defer p.report(t)
					_, to, err := p.addresses()
					if err != nil {
						t.Fatal(err)
					}
					before := received(t, device)
					if err := p.ours.tell("connect", ep, "peer", to); err != nil {
						t.Fatal(err)
					}
					for end := time.Now().Add(exitLimit); received(t, device) < before+step; {
						if time.Now().After(end) {
							t.Fatalf("%d packets have come of %d", received(t, device)-before, step)
						}
					}
					p.theirs.process.kill()
					if _, err := p.ours.answer("connect"); err != nil {
						t.Fatal(err)
					}
					requests, _ := waiting(t, p)
					expectFailure(t, p, requests)
				})
			}
		}
	})
}
