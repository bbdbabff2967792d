//go:build linux

package interop

import (
	"slices"
	"testing"
)

// tokens is a setting of our side alone: the other is not to know of it.
func (p program) tokens(mode string) program {
	p.env = append(slices.Clone(p.env), "UCX_TOKEN="+mode)
	return p
}

// TestTokenKnown: C peers whose endpoints we make are served by a worker with a token,
// whose address they read and whose requests they answer; peers of this library always.
func TestTokenKnown(t *testing.T) {
	t.Parallel() // the peers sleep much
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

// TestTokenAsked: a C peer that asks a worker which wants its token proved loses its
// connection, and the worker lives. One that the worker has asked first is served, and
// so is one that asks where its endpoint is made and that is enough.
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

// theyAsk: what needs our id fails at the C peer.
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

// weAsk: by our request the C peer has the id and need not ask.
func weAsk(t *testing.T, p *pair) {
	exchange := expected("contig", "contig", "sync")
	if err := exchange(p.ours, p.theirs, &p.msgs, 100); err != nil {
		t.Fatal(err)
	}
	if err := exchange(p.theirs, p.ours, &p.msgs, 100); err != nil {
		t.Error(err)
	}
}

// theyMayAsk: the C peer's request is the first, and is answered.
func theyMayAsk(t *testing.T, p *pair) {
	exchange := expected("contig", "contig", "sync")
	if err := exchange(p.theirs, p.ours, &p.msgs, 100); err != nil {
		t.Fatal(err)
	}
	if err := exchange(p.ours, p.theirs, &p.msgs, 100); err != nil {
		t.Error(err)
	}
}
