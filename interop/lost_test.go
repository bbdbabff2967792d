//go:build linux

package interop

import (
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/needtest"
	"github.com/ucx-go/ucx/ucs"
)

// A lostCase is a way to lose a peer. Each case has a new pair in error mode peer; the Go side
// stays, the other one is killed or stopped.
type lostCase struct {
	name string
	run  func(t *testing.T, p *pair)
	env  []string
}

var lostCases = []lostCase{
	{name: "killed", run: killed},
	{name: "stopped and continued", run: stopped},
	{name: "stopped, closed by force", run: stoppedForced},
	{name: "killed before a send", run: killedBefore},
	{name: "killed amid transfers", run: killedAmid},
	{name: "killed with messages queued", run: killedQueued, env: []string{"UCX_RNDV_THRESH=inf"}},
	{name: "killed while we sleep", run: killedAsleep},
	{name: "stopped while we close, and killed", run: killedClosing},
}

// often makes the keepalive detect soon what nothing else reports.
const often = "UCX_KEEPALIVE_INTERVAL=50ms"

// TestLostPeer checks that operations toward a killed peer end with an error, and those toward a
// stopped peer do not end. When both processes have exited, none of their shared memory is left.
func TestLostPeer(t *testing.T) {
	c := buildC(t)
	ours := buildGo(t)
	where := newPlace()
	defer where.close()
	if where.apart(t) {
		t.Parallel() // the peers mostly sleep
	}
	before := where.sharedMemory(t)
	for _, theirs := range append([]program{ours}, c...) {
		routes := []route{lo, posix, sysv, posixCMA}
		if theirs.ours {
			routes = append(routes, posixFiles)
		}
		for _, over := range routes {
			for _, test := range lostCases {
				t.Run(theirs.name+"/"+over.name+"/"+test.name, func(t *testing.T) {
					lose(t, where, ours, theirs, over, test)
					if over.name == posixFiles.name {
						reclaim(t, where, ours)
					}
					where.nothingLeft(t, before)
				})
			}
		}
		for _, d := range where.devices()[1:] {
			for _, test := range lostCases[:3] {
				t.Run(theirs.name+"/"+d.name+"/"+test.name, func(t *testing.T) {
					lose(t, where, ours, theirs, network(d), test)
				})
			}
		}
	}
}

// lose runs a case.
func lose(t *testing.T, where *place, ours, theirs program, over route, test lostCase) {
	p, err := newPair(where, ours, theirs, setting{mode: "peer", both: append(test.env, often)}, over)
	if err != nil {
		t.Fatal(err)
	}
	defer p.report(t)
	p.slow = over.rdma
	p.meet(t)
	test.run(t, p)
}

// waiting starts sends that cannot complete without the peer: a small synchronous one and a
// rendezvous.
func waiting(t *testing.T, p *pair) (requests []int, sent []message) {
	t.Helper()
	for _, size := range []int{8, 4 << 20} {
		m := p.msgs.next(size)
		n, err := p.ours.send(ep, m, "contig", "sync")
		if err != nil {
			t.Fatal(err)
		}
		requests, sent = append(requests, n), append(sent, m)
	}
	return requests, sent
}

// killed: all operations toward the peer end.
func killed(t *testing.T, p *pair) {
	requests, _ := waiting(t, p)
	p.theirs.process.kill()
	expectFailure(t, p, requests)
}

// expectFailure checks that requests end with an error, that the error handler is called, and that
// the Go process keeps working.
func expectFailure(t *testing.T, p *pair, requests []int) {
	t.Helper()
	expectEnded(t, p, requests)
	closeAndExit(t, p, "flush")
}

// expectEnded checks that requests end with an error, and that the error handler is called.
func expectEnded(t *testing.T, p *pair, requests []int) {
	t.Helper()
	for _, n := range requests {
		got, err := p.ours.wait(n, 0)
		if err != nil {
			t.Fatal(err)
		}
		if !got.status.IsError() {
			t.Errorf("send to a lost peer: %v", got.status)
		}
	}
	expectLost(t, p)
}

// killedBefore: operations started toward a dead peer end.
func killedBefore(t *testing.T, p *pair) {
	p.theirs.process.kill()
	requests, _ := waiting(t, p)
	expectFailure(t, p, requests)
}

// killedAmid kills the peer when some of many large messages in both directions are complete.
func killedAmid(t *testing.T, p *pair) {
	const count = 6
	size := 16 << 20
	if p.slow {
		size = 1 << 20
	}
	var sends, receives []int
	for range count {
		there, back := p.msgs.next(size), p.msgs.next(size)
		_, err := p.theirs.recv(there.tag, fullMask, size, "contig")
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.ours.recv(back.tag, fullMask, size, "contig")
		if err != nil {
			t.Fatal(err)
		}
		receives = append(receives, r)
		s, err := p.ours.send(ep, there, "contig", "async")
		if err != nil {
			t.Fatal(err)
		}
		sends = append(sends, s)
		if _, err := p.theirs.send(ep, back, "contig", "async"); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{sends[0], receives[0]} {
		if err := p.ours.finish(n); err != nil {
			t.Fatal(err)
		}
	}
	p.theirs.process.kill()
	expectLost(t, p)
	// Receives of messages that will never come belong to no endpoint.
	for _, n := range receives[1:] {
		if err := p.ours.do("cancel", n); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range append(sends[1:], receives[1:]...) {
		if _, err := p.ours.wait(n, 0); err != nil { // any status will do
			t.Fatal(err)
		}
	}
	closeAndExit(t, p, "flush")
}

// killedQueued stops the peer, so that messages wait for room, and then kills it.
func killedQueued(t *testing.T, p *pair) {
	const count, size = 100, 256 << 10
	signal(t, p.theirs, syscall.SIGSTOP)
	var sends []int
	for range count {
		n, err := p.ours.send(ep, p.msgs.next(size), "contig", "async")
		if err != nil {
			t.Fatal(err)
		}
		sends = append(sends, n)
	}
	p.theirs.process.kill()
	expectLost(t, p)
	bad := 0
	for _, n := range sends {
		got, err := p.ours.wait(n, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got.status.IsError() {
			bad++
		}
	}
	if bad == 0 {
		t.Error("all messages are said to be sent")
	}
	closeAndExit(t, p, "flush")
}

// killedAsleep kills the peer while the Go side sleeps on the event descriptor.
func killedAsleep(t *testing.T, p *pair) {
	requests, _ := waiting(t, p)
	n := requests[len(requests)-1]
	if err := p.ours.tell("sleep", n, operationLimit.Milliseconds()); err != nil {
		t.Fatal(err)
	}
	p.ours.process.asleep(t)
	p.theirs.process.kill()
	values, err := p.ours.answer("sleep")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := parseResult(values); err != nil || !got.status.IsError() {
		t.Errorf("send to a lost peer: %q", values)
	}
	expectFailure(t, p, requests[:len(requests)-1])
}

// killedClosing: a close that waits for a peer that will never answer ends.
func killedClosing(t *testing.T, p *pair) {
	const size = 100_000
	g, err := open(p.ours, p.theirs, 0, memorySize(size), 0, own)
	if err != nil {
		t.Fatal(err)
	}
	signal(t, p.theirs, syscall.SIGSTOP)
	put, err := g.put(0, p.msgs.next(size))
	if err != nil {
		t.Fatal(err)
	}
	closing := p.ours.request()
	if err := p.ours.do("close", closing, ep, "flush"); err != nil {
		t.Fatal(err)
	}
	p.theirs.process.kill()
	for _, n := range []int{put, closing} {
		if _, err := p.ours.wait(n, 0); err != nil { // any status will do
			t.Error(err)
		}
	}
	if err := errors.Join(p.ours.do("release", g.number), p.ours.exit()); err != nil {
		t.Error(err)
	}
}

// expectLost waits until the Go side has detected the loss of the peer.
func expectLost(t *testing.T, p *pair) {
	t.Helper()
	if err := p.ours.lost(ep); err != nil {
		t.Fatal(err)
	}
}

// lost waits until a peer has detected that an endpoint's peer is lost.
func (p *peer) lost(ep int) error {
	_, err := p.failure(ep)
	return err
}

// failure waits until the error handler of an endpoint is called.
func (p *peer) failure(ep int) (ucs.Status, error) {
	for end := time.Now().Add(operationLimit); ; {
		values, err := p.command("failure", ep)
		if err != nil {
			return ucs.OK, err
		}
		if r, err := parseResult(values); err != nil || r.status.IsError() {
			return r.status, err
		}
		if time.Now().After(end) {
			return ucs.OK, fmt.Errorf("%s: the error handler of endpoint %d is told nothing: %w", p.name, ep, errTimeout)
		}
		if err := p.do("progress", 5); err != nil {
			return ucs.OK, err
		}
	}
}

// stopped: nothing fails while the peer is stopped, and everything continues with it.
func stopped(t *testing.T, p *pair) {
	signal(t, p.theirs, syscall.SIGSTOP)
	requests, sent := waiting(t, p)
	for _, n := range requests {
		if got, err := p.ours.waitFor(n, 0, 300*time.Millisecond); !errors.Is(err, errTimeout) {
			t.Errorf("send to a stopped peer: %v, %v", got.status, err)
		}
	}
	signal(t, p.theirs, syscall.SIGCONT)
	for i, m := range sent {
		r, err := p.theirs.recv(m.tag, fullMask, m.size, "contig")
		if err != nil {
			t.Fatal(err)
		}
		if err := both(p.ours, requests[i], p.theirs, r, m); err != nil {
			t.Error(err)
		}
	}
	if err := p.close("peer"); err != nil {
		t.Error(err)
	}
}

// stoppedForced: a forced close ends all operations without the peer.
func stoppedForced(t *testing.T, p *pair) {
	signal(t, p.theirs, syscall.SIGSTOP)
	requests, _ := waiting(t, p)
	n := p.ours.request()
	if err := p.ours.do("close", n, ep, "force"); err != nil {
		t.Fatal(err)
	}
	if err := p.ours.finish(n); err != nil {
		t.Error(err)
	}
	for _, n := range requests {
		got, err := p.ours.wait(n, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got.status != ucs.ErrCanceled {
			t.Errorf("send after a forced close: %v", got.status)
		}
	}
	if err := p.ours.exit(); err != nil {
		t.Error(err)
	}
}

// TestLongWait: a long wait makes the Go side probe the peer in error mode none, too, whether or
// not the peer knows these probes, and everything continues afterwards.
func TestLongWait(t *testing.T) {
	c := buildC(t)
	ours := buildGo(t)
	where := newPlace()
	defer where.close()
	for _, theirs := range append([]program{ours}, c...) {
		for _, over := range []route{lo, posix, sysv} {
			for name, env := range map[string][]string{"": nil, ", ids from a table": {"UCX_PROTO_INDIRECT_ID=y"}} {
				if theirs.ours && env != nil {
					continue
				}
				t.Run(theirs.name+"/"+over.name+name, func(t *testing.T) {
					p, err := newPair(where, ours, theirs, setting{both: []string{"UCX_KEEPALIVE_INTERVAL=5ms"}, theirs: env}, over)
					if err != nil {
						t.Fatal(err)
					}
					defer p.report(t)
					p.meet(t)
					requests, sent := waiting(t, p)
					for _, side := range []*peer{p.ours, p.theirs, p.ours} {
						if err := side.do("progress", 50); err != nil {
							t.Fatal(err)
						}
					}
					for i, m := range sent {
						r, err := p.theirs.recv(m.tag, fullMask, m.size, "contig")
						if err != nil {
							t.Fatal(err)
						}
						if err := both(p.ours, requests[i], p.theirs, r, m); err != nil {
							t.Error(err)
						}
					}
					if err := p.close("none"); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

// closeAndExit closes the Go endpoint and ends the Go process.
func closeAndExit(t *testing.T, p *pair, mode string) {
	t.Helper()
	n := p.ours.request()
	if err := p.ours.do("close", n, ep, mode); err != nil {
		t.Fatal(err)
	}
	if _, err := p.ours.wait(n, 0); err != nil { // any status will do
		t.Error(err)
	}
	if err := p.ours.exit(); err != nil {
		t.Error(err)
	}
}

func signal(t *testing.T, p *peer, s syscall.Signal) {
	t.Helper()
	if err := p.process.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// TestUnplugged cuts the cable between two peers. Nothing reports that to either of them, so the
// timeouts of the connection must detect it.
func TestUnplugged(t *testing.T) {
	t.Parallel() // the peers mostly sleep
	c := buildC(t)
	ours := buildGo(t)
	limits := setting{mode: "peer", both: []string{
		"UCX_TCP_KEEPIDLE=1s", "UCX_TCP_KEEPINTVL=1s", "UCX_TCP_KEEPCNT=2"}}
	for _, theirs := range append([]program{ours}, c...) {
		for _, ends := range []string{"near end", "far end"} {
			t.Run(theirs.name+"/"+ends, func(t *testing.T) {
				here, there, err := newLinkedPlaces()
				if err != nil {
					needtest.Right(t, "two network namespaces: "+err.Error())
				}
				defer here.close()
				defer there.close()
				p, err := newPairApart(here, there, ours, theirs, limits,
					network(device{list: here.eth}), network(device{list: there.eth}))
				if err != nil {
					t.Fatal(err)
				}
				defer p.report(t)
				p.meet(t)
				requests, _ := waiting(t, p)
				cut := here
				if ends == "far end" {
					cut = there
				}
				if err := cut.ip("link set " + cut.eth + " down"); err != nil {
					t.Fatal(err)
				}
				expectFailure(t, p, requests)
			})
		}
	}
}
