package admit

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"

	"github.com/ucx-go/ucx/proto"
)

// peers is a made-up worker's knowledge about a sender.
type peers struct {
	named, verified      Standing // of the address before and after it is validated
	migrated, unknown    bool     // what Migrated and Resolve return
	asked, moved, sought int      // how often each method was called
}

func (p *peers) Standing(*proto.WorkerAddress) Standing {
	if p.asked++; p.asked == 1 {
		return p.named
	}
	return p.verified
}

func (p *peers) Migrated(*proto.WorkerAddress) bool {
	p.moved++
	return p.migrated
}

func (p *peers) Resolve(*proto.WorkerAddress) bool {
	p.sought++
	return p.unknown
}

// TestDecide checks the decision for all combinations of the facts that it depends on.
func TestDecide(t *testing.T) {
	const text = "a request"
	flags := func(n int, to ...*bool) {
		for k, f := range to {
			*f = n>>k&1 != 0
		}
	}
	for n := range 1 << 9 {
		var token, required, closed, proves, again, opens, trusted, migrated, unresolved bool
		flags(n, &token, &required, &closed, &proves, &again, &opens, &trusted, &migrated, &unresolved)
		for named := Unknown; named <= Trusted; named++ {
			for verified := Unknown; verified <= Trusted; verified++ {
				g := Gate{Closed: closed, ProofRequired: required, Rates: Rates{Clock: func() time.Duration { return 0 }}}
				if token {
					g.Tokens = NewTokens(5)
				}
				a := address("other process", "other ip")
				a.UUID = 9
				k, p, proof := from(near, true), &peers{named: named, verified: verified, migrated: migrated, unknown: unresolved}, new(Proof)
				if proves && token {
					g.Tokens.Keep(proof, g.Tokens.KeyFor(9).Prove(5, 9, []byte(text)))
				}
				kept := *proof
				r := Request{Message: []byte(text), Address: a, Opens: opens, Proof: proof, Again: again, Proved: again && proves}
				v := k.validator()
				if v.Rates = &g.Rates; trusted {
					v = nil
				}
				d := g.Decide(&r, v, p)
				what := fmt.Sprintf("%+v of %v, then %v, token %v, closed %v, required %v, proves %v, trusted %v: %+v", r, named, verified, token, closed, required, proves, trusted, d)

				// Soundness: what must be refused is refused.
				proved := proves || !token && !again
				last := verified
				if d.Migrated {
					last = Trusted
				}
				switch {
				case (d.Verdict == Refuse) != (d.Err != nil) || d.Err != nil && !errors.Is(d.Err, ucs.ErrRejected):
					t.Error("verdict and error do not fit:", what)
				case d.Proved != proved:
					t.Error("wrongly proved:", what)
				case d.Verdict != Refuse && token && required && !proved && !again:
					t.Error("admitted without the proof that is required:", what)
				case d.Verdict != Refuse && (named != Trusted || last != Trusted) && (!proved || closed):
					t.Error("admitted although the worker is not open to it:", what)
				case d.Reason == ledger.Token && proved || d.Reason == ledger.Policy && !closed:
					t.Error("refused for a wrong reason:", what)
				case d.Verdict == Defer && (again || !unresolved):
					t.Error("wrongly deferred:", what)
				case d.Migrated && (verified >= Untrusted || !proved || !opens):
					t.Error("wrongly taken for a migrated peer:", what)
				}

				// Completeness: what may be accepted is not refused.
				if d.Verdict == Refuse && proved && (!closed || named == Trusted && verified == Trusted) {
					t.Error("refused without a reason:", what)
				}
				if d.Verdict == Refuse && named == Trusted && verified == Trusted && !(token && required && !again) {
					t.Error("a trusted peer is refused:", what)
				}
				if d.Verdict == Admit && unresolved && !again {
					t.Error("not deferred:", what)
				}
				if d.NotPeer != (p.asked > 0 && named == NotPeer || p.asked > 1 && verified == NotPeer) {
					t.Error("another certificate is not told, or wrongly:", what)
				}

				// A request that is refused early causes no look-ups, and nothing is counted twice.
				if early := d.Verdict == Refuse && p.asked < 2; (early || trusted) && (k.finds+k.held+k.listens+p.moved+p.sought > 0 && !trusted || len(entries(a)) != 2) {
					t.Error("looked up for a request that is refused:", what)
				} else if !early && !trusted && (len(entries(a)) != 0 || d.Claimed == nil || !d.Contradicts) {
					t.Error("the address is not validated:", what)
				}
				counted := g.Rates.Of(k.Source()) != nil
				if counted != (!again && !trusted) || *proof != kept && again || token && !again && *proof != (Proof{}) {
					t.Error("a request is not counted once, or its proof not used once:", what)
				}
			}
		}
	}
}

// TestDecideRate: a source in debt is not read, and far beyond its rate it is refused before
// anything else is looked at, its proof too.
func TestDecideRate(t *testing.T) {
	g := Gate{ProofRequired: true, Tokens: NewTokens(5), Rates: Rates{Clock: func() time.Duration { return 0 }}}
	for k := range RequestBurst + RequestOverdraft {
		r := Request{Address: address("ip"), Proof: new(Proof)}
		p := new(peers)
		v := from(near, true).validator()
		v.Rates = &g.Rates
		d := g.Decide(&r, v, p)
		if d.Reason != ledger.Token || (d.Wait > 0) != (k >= RequestBurst) || d.Wait > RequestOverdraft*time.Second/RequestRate {
			t.Fatalf("request %d: %+v", k, d)
		}
	}
	k, p, proof := from(near, true), &peers{named: Trusted}, Proof{new(proto.TokenProof)}
	v := k.validator()
	v.Rates = &g.Rates
	d := g.Decide(&Request{Address: address("process"), Proof: &proof}, v, p)
	if d.Verdict != Refuse || d.Reason != ledger.TooManyEps || !errors.Is(d.Err, ucs.ErrExceedsLimit) || p.asked+k.finds+k.held > 0 || proof.kept == nil {
		t.Errorf("%+v, asked %d times", d, p.asked)
	}
	if d := g.Decide(&Request{Address: address("process"), Again: true, Proved: true}, v, p); d.Verdict != Admit {
		t.Errorf("a deferred request of a trusted peer counts once more: %+v", d)
	}
}
