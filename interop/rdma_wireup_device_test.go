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

// received returns how many packets a device has received.
func received(device string) (n int, err error) {
	path := "/sys/class/infiniband/" + device + "/ports/1/hw_counters/rcvd_pkts"
	text, err := os.ReadFile(path)
	if err == nil {
		n, err = strconv.Atoi(strings.TrimSpace(string(text)))
	}
	return n, err
}

// killAt kills a peer after its device has received this many more packets, and then sends to the
// channel.
func killAt(p *peer, device string, packets int) (<-chan error, error) {
	before, err := received(device)
	if err != nil {
		return nil, err
	}
	killed := make(chan error, 1)
	go func() {
		for end := time.Now().Add(exitLimit); ; {
			n, err := received(device)
			switch {
			case err != nil:
			case n-before >= packets:
				p.process.kill()
			case time.Now().After(end):
				err = fmt.Errorf("%d packets have come of %d", n-before, packets)
			default:
				continue
			}
			killed <- err
			return
		}
	}()
	return killed, nil
}

// TestRDMAKilledInWireup kills the peer after its device has received a number of packets: before
// it answers the first one, while datagrams connect, while lanes are agreed on, and once they are
// connected. All operations of the Go side end, and its process keeps working.
func TestRDMAKilledInWireup(t *testing.T) {
	onVeth(t)
	short := map[string][]int{reliable: {1, 3, 5}, datagram: {2}}
	env := []string{often, "UCX_UD_VERBS_TIMEOUT=2s", "UCX_RC_VERBS_TIMEOUT=200ms"}
	_, side := rdmaSides(t)
	device, _, _ := strings.Cut(side.device, ":")
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		for _, over := range rdmaRoutes(t, reliable, datagram) {
			steps := []int{1, 2, 3, 4, 5, 6, 8, 10, 15}
			if !rdmaLong {
				steps = short[over.name]
			}
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
					killed, err := killAt(p.theirs, device, step)
					if err != nil {
						t.Fatal(err)
					}
					if err := p.ours.do("connect", ep, "peer", to); err != nil {
						t.Fatal(err)
					}
					requests, _ := waiting(t, p)
					if err := <-killed; err != nil {
						t.Fatal(err)
					}
					expectFailure(t, p, requests)
				})
			}
		}
	})
}
