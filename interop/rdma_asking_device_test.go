//go:build linux

package interop

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestRDMAKilledAsking kills a peer that requests a connection after the Go side's device has
// received a number of its packets: before its request, between that and its acknowledgement of the
// answer, or when connected. The Go side releases everything made for the peer, once, whether it
// has an endpoint of its own or not, and the next peer connects as usual.
func TestRDMAKilledAsking(t *testing.T) {
	onVeth(t)
	short := map[string]int{reliable: 3, datagram: 2}
	side, _ := rdmaSides(t)
	device, _, _ := strings.Cut(side.device, ":")
	eachRDMA(t, func(t *testing.T, where *place, ours, theirs program) {
		if theirs.ours && !rdmaLong {
			return
		}
		env := soonLost(t, where, ours, theirs)
		for _, over := range rdmaRoutes(t, reliable, datagram) {
			steps := []int{1, 2, 3, 4, 5, 6, 8, 10}
			if !rdmaLong {
				steps = []int{short[over.name]}
			}
			for _, step := range steps {
				for name, both := range map[string]bool{"": false, ", both": true} {
					if !rdmaLong && both != (over.name == reliable) {
						continue
					}
					t.Run(fmt.Sprintf("%s/packet %d%s", over.name, step, name), func(t *testing.T) {
						p, err := startApart(where, where.opposite(), ours, theirs, setting{mode: "peer", both: env}, over, over)
						if err != nil {
							t.Fatal(err)
						}
						defer func() { p.report(t) }()
						had := p.ours.queuePairs(t)
						p.killedAsking(t, device, step, both)
						p.ours.wantQueuePairs(t, had)
						next, err := startPeer(where.opposite(), theirs.path, p.theirs.process.cmd.Env)
						if err != nil {
							t.Fatal(err)
						}
						p.theirs = next
						if err := p.connect("peer"); err != nil {
							t.Fatal(err)
						}
						if err := expected("contig", "contig", "sync")(p.ours, p.theirs, &p.msgs, 100); err != nil {
							lost, _ := p.ours.command("failure", ep)
							t.Fatalf("with the next peer: %v; our endpoint's failure: %v", err, lost)
						}
						if err := p.close("peer"); err != nil {
							t.Error(err)
						}
					})
				}
			}
		}
	})
}

// killedAsking makes the other side connect, and the Go side as well if both is true.
func (p *pair) killedAsking(t *testing.T, device string, step int, both bool) {
	t.Helper()
	a, b, err := p.addresses()
	if err != nil {
		t.Fatal(err)
	}
	killed, err := killAt(p.theirs, device, step)
	if err != nil {
		t.Fatal(err)
	}
	asks := func() error {
		if err := p.theirs.do("connect", ep, "peer", a); err != nil {
			return err
		}
		m := p.msgs.next(4 << 20)
		if _, err := p.theirs.send(ep, m, "contig", "sync"); err != nil {
			return err
		}
		return p.theirs.do("progress", exitLimit.Milliseconds())
	}
	asked := make(chan error, 1)
	go func() { asked <- asks() }()
	var requests []int
	if both {
		if err := p.ours.do("connect", ep, "peer", b); err != nil {
			t.Fatal(err)
		}
		requests, _ = waiting(t, p)
	}
	if err := <-killed; err != nil {
		t.Fatal(err)
	}
	if err := <-asked; err == nil {
		t.Fatal("who was killed has said that all is done")
	}
	if !both {
		return
	}
	expectEnded(t, p, requests)
	n := p.ours.request()
	if err := p.ours.do("close", n, ep, "flush"); err != nil {
		t.Fatal(err)
	}
	if _, err := p.ours.wait(n, 0); err != nil { // any status will do
		t.Fatal(err)
	}
}

// queuePairs returns the number of queue pairs of a peer's process.
func (p *peer) queuePairs(t *testing.T) int {
	t.Helper()
	list := command(t, "rdma resource show qp")
	return strings.Count(list, fmt.Sprintf(" pid %d ", p.process.cmd.Process.Pid))
}

// wantQueuePairs waits until a Go peer has no more than that.
func (p *peer) wantQueuePairs(t *testing.T, most int) {
	t.Helper()
	if p.isC() {
		return // C keeps them until its worker closes
	}
	for end := time.Now().Add(operationLimit); p.queuePairs(t) > most; {
		if time.Now().After(end) {
			t.Fatalf("%d queue pairs, and were %d:\n%s", p.queuePairs(t), most, command(t, "rdma resource show qp"))
		}
		if err := p.do("progress", 20); err != nil {
			t.Fatal(err)
		}
	}
}
