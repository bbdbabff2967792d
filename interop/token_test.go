//go:build linux

package interop

import (
	"slices"
	"testing"
)

// tokens sets UCX_TOKEN for the Go side only: the other side does not know the setting.
func (p program) tokens(mode string) program {
	p.env = append(slices.Clone(p.env), "UCX_TOKEN="+mode)
	return p
}

// TestTokenKnown: a worker with a token serves C peers to which it has made endpoints, as it knows
// their addresses and they answer its requests. It always serves Go peers that have the token.
func TestTokenKnown(t *testing.T) {
	t.Parallel() // the peers mostly sleep
	c := buildC(t)
	ours := buildGo(t)
	where := newPlace()
	defer where.close()
	for _, theirs := range append([]program{ours.tokens("y")}, c...) {
		mode := "known"
		if theirs.ours {
			mode = "y"
		}
		m := newMatrix(ours.name + " with a token and " + theirs.name)
		for _, over := range []route{network(where.devices()[0]), posix, sysv, allTransports} {
			for _, s := range []setting{settings[0], {name: "address v2", theirs: []string{"UCX_ADDRESS_VERSION=v2"}}, {name: "error mode peer", mode: "peer"}} {
				t.Run(theirs.name+"/"+over.name+"/"+s.name, func(t *testing.T) {
					r := runner{t: t, where: where, ours: ours.tokens(mode), theirs: theirs, setting: s, route: over, matrix: m}
					r.run([]int{8, 16384})
				})
			}
		}
	}
}

// TestTokenAsked: a C peer whose request lacks the required token loses its connection, and the
// worker keeps working. A C peer is served if the worker has sent its request first, or if mode
// known suffices, as the worker has an endpoint to it.
func TestTokenAsked(t *testing.T) {
	c := buildC(t)
	ours := buildGo(t)
	where := newPlace()
	defer where.close()
	for _, test := range []struct {
		name, mode string
		run        func(t *testing.T, p *pair)
	}{{"required, they ask", "y", theyAsk}, {"required, we ask", "y", weAsk}, {"known, they ask", "known", theyMayAsk}} {
		for _, theirs := range c {
			t.Run(theirs.name+"/"+test.name, func(t *testing.T) {
				p, err := newPair(where, ours.tokens(test.mode), theirs, setting{mode: "peer"}, lo)
				if err != nil {
					t.Fatal(err)
				}
				defer func() {
					if said := p.abort(); t.Failed() && said != nil {
						t.Log(said)
					}
				}()
				test.run(t, p)
				if err := p.ours.do("progress", 1); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// theyAsk: an operation that needs the Go endpoint's id fails at the C peer.
func theyAsk(t *testing.T, p *pair) {
	n, err := p.theirs.send(ep, p.msgs.next(8), "contig", "sync")
	if err != nil {
		t.Fatal(err)
	}
	got, err := p.theirs.wait(n, 0)
	if err != nil || !got.status.IsError() {
		t.Errorf("a request without the token: %v, %v", got.status, err)
	}
}

// weAsk: the Go side's request gives the C peer the id, so it needs no request.
func weAsk(t *testing.T, p *pair) {
	exchange := expected("contig", "contig", "sync")
	if err := exchange(p.ours, p.theirs, &p.msgs, 100); err != nil {
		t.Fatal(err)
	}
	if err := exchange(p.theirs, p.ours, &p.msgs, 100); err != nil {
		t.Error(err)
	}
}

// theyMayAsk: the C peer's request comes first, and is answered.
func theyMayAsk(t *testing.T, p *pair) {
	exchange := expected("contig", "contig", "sync")
	if err := exchange(p.theirs, p.ours, &p.msgs, 100); err != nil {
		t.Fatal(err)
	}
	if err := exchange(p.ours, p.theirs, &p.msgs, 100); err != nil {
		t.Error(err)
	}
}
