package ucp

import (
	"fmt"
	"slices"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// What a peer owes us is that it reads its answers (answers.go).

// addOwed charges a source with n bytes of answers that wait.
func (s *source) addOwed(n int) {
	s.owed += n
	s.w.owedBytes += n
	p := s.pays()
	p.owed += n
	if p.owed > p.owedHigh {
		p.oweMore()
	}
}

// checkOwed looks whether that is too much, after something was charged for answers
// over ep. Then the reading of the source stops.
func (s *source) checkOwed(ep *Endpoint) {
	if s.owed >= s.checkAt && (s.due() > s.w.maxOwed || s.due() > leastOwed && s.w.owedMuch(s.pays())) {
		s.owesTooMuch(ep)
	}
}

// repay takes n bytes off that.
func (s *source) repay(n int) {
	s.owed -= n
	s.w.owedBytes -= n
	p := s.pays()
	p.owed -= n
	if p.owedHigh-p.owed > 4*owedStep {
		p.account.Add(ledger.Owed, int64(p.owed+owedStep-p.owedHigh))
		p.owedHigh = p.owed + owedStep
	}
	if s.paused && s.due() <= s.resumeAt {
		s.resume()
	}
	if s.owed < s.checkAt/2 {
		s.checkAt = 0
	}
	if s.over {
		s.settle()
	}
}

// owedStep is in what steps an account is charged with answers.
const owedStep = 64 << 10

func (p *payer) oweMore() {
	p.account.Add(ledger.Owed, int64(p.owed+owedStep-p.owedHigh))
	p.owedHigh = p.owed + owedStep
}

// owedMuch reports whether so much is owed by the account, or in all, that a
// connection may not owe what it may otherwise.
func (w *Worker) owedMuch(p *payer) bool {
	most := int64(w.maxHeld / 4)
	return ledger.Total(ledger.Owed) > most/2 || p.account.Of(ledger.Owed) > most/4
}

// owesTooMuch stops the reading of a source, if nothing is expected from there, and
// drops it if that does not help.
//
//go:noinline
func (s *source) owesTooMuch(ep *Endpoint) {
	w := s.w
	if s.uct == nil {
		return
	}
	most := w.mostOwed
	if w.owedMuch(s.pays()) {
		most = min(most, owedMultiple*leastOwed)
	}
	if s.stopFor(ep) {
		return
	}
	s.checkAt = s.owed + most/32
	if s.owed > most && !s.paused {
		w.dropDebtor(s, ep, fmt.Errorf("ucp: a peer does not read its replies, %d bytes: %w", s.owed, ucs.ErrExceedsLimit))
	}
}

// resume goes on reading a source.
func (s *source) resume() {
	s.paused = false
	s.readOn()
}

// dropDebtor drops a connection that does not read, and the endpoint over which it is
// answered, which may be another connection, if it is the same peer's.
func (w *Worker) dropDebtor(s *source, ep *Endpoint, err error) {
	w.logRefusal(s.pays().account, ledger.Answers, err)
	payer := s.pays()
	s.uct.Drop(err)
	if b := ep.bill; b != nil && (b.openedBy != nil && b.openedBy.pays() == payer || b.known == payer.account) {
		ep.fail(err)
	}
}

// awaits reports whether the worker waits for something from the endpoint's peer, by
// this or another endpoint.
func (ep *Endpoint) awaits() bool {
	waits := ep.waitsForPeer()
	if !waits && ep.peer != nil {
		waits = slices.ContainsFunc(ep.peer.ends, (*Endpoint).waitsForPeer)
	}
	return waits
}

// waitsForPeer reports whether something of the endpoint waits for a message. Where both
// have asked for the other's id only one request is answered: who has the id does not wait.
func (ep *Endpoint) waitsForPeer() bool {
	return ep.state&epRequested != 0 && (ep.remoteID == 0 || ep.state&epHearsay != 0) || ep.unanswered()
}

// stopFor stops the reading of a source because of what it owes, by answers or replies over
// ep, if that can be and nothing is expected from there.
func (s *source) stopFor(ep *Endpoint) bool {
	p, ok := s.uct.Owner.(uct.SourcePauser)
	if !ok || s.paused || ep.awaits() {
		return false
	}
	s.paused, s.resumeAt = true, s.due()/2
	s.w.stats.Paused++
	p.PauseSource()
	return true
}

// due is what a source owes that it only has to read.
func (s *source) due() int { return s.owed - s.asks }
