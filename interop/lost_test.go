package interop

import (
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// lostCases are what may happen to a peer. Each gets a fresh pair in peer error
// mode; ours stays, theirs suffers.
var lostCases = []struct {
	name string
	run  func(t *testing.T, p *pair)
}{
	{"killed", killed},
	{"stopped and continued", stopped},
	{"stopped, closed by force", stoppedForced},
}

// TestLostPeer checks that the operations toward a peer that dies end with a
// status, and that those toward a peer that merely stands still do not.
func TestLostPeer(t *testing.T) {
	dir := t.TempDir()
	c := buildC(t, dir)
	ours := buildGo(t, dir)
	where := newPlace()
	defer where.close()
	for _, theirs := range append([]program{ours}, c...) {
		for _, d := range where.devices() {
			for _, test := range lostCases {
				t.Run(theirs.name+"/"+d.name+"/"+test.name, func(t *testing.T) {
					p, err := newPair(where, ours, theirs, setting{mode: "peer"}, network(d))
					if err != nil {
						t.Fatal(err)
					}
					defer func() {
						if said := p.abort(); t.Failed() && said != nil {
							t.Log(said)
						}
					}()
					if err := expected("contig", "contig", "sync")(p.ours, p.theirs, &p.msgs, 100); err != nil {
						t.Fatal(err)
					}
					test.run(t, p)
				})
			}
		}
	}
}

// waiting are sends that cannot end without the peer: a small synchronous one
// and a rendezvous.
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

// killed: everything toward the peer ends.
func killed(t *testing.T, p *pair) {
	requests, _ := waiting(t, p)
	p.theirs.process.kill()
	expectFailure(t, p, requests)
}

// expectFailure checks that requests end with a status, that the error handler
// runs, and that our process goes on.
func expectFailure(t *testing.T, p *pair, requests []int) {
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
	values, err := p.ours.command("failure", ep)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := parseResult(values); err != nil || !r.status.IsError() {
		t.Errorf("error handler was told %v", values)
	}
	closeAndExit(t, p, "flush")
}

// stopped: nothing times out, and all goes on when the peer does.
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

// stoppedForced: a forced close ends everything without the peer.
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

// closeAndExit closes the endpoint of our side and ends our process.
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

// TestUnplugged cuts the cable between two peers. Nothing tells either of them,
// so the time limits of the connection must.
func TestUnplugged(t *testing.T) {
	dir := t.TempDir()
	c := buildC(t, dir)
	ours := buildGo(t, dir)
	limits := setting{mode: "peer", both: []string{
		"UCX_TCP_KEEPIDLE=1s", "UCX_TCP_KEEPINTVL=1s", "UCX_TCP_KEEPCNT=2"}}
	for _, theirs := range append([]program{ours}, c...) {
		for _, ends := range []string{"near end", "far end"} {
			t.Run(theirs.name+"/"+ends, func(t *testing.T) {
				here, there, err := newLinkedPlaces()
				if err != nil {
					need(t, "two network namespaces: "+err.Error())
				}
				defer here.close()
				defer there.close()
				p, err := newPairApart(here, there, ours, theirs, limits,
					network(device{list: here.eth}), network(device{list: there.eth}))
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if said := p.abort(); t.Failed() && said != nil {
						t.Log(said)
					}
				}()
				if err := expected("contig", "contig", "sync")(p.ours, p.theirs, &p.msgs, 100); err != nil {
					t.Fatal(err)
				}
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
