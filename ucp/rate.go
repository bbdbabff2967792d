package ucp

import (
	"time"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs/log"
	"github.com/ucx-go/ucx/uct"
)

// What peers ask for makes the worker connect to somewhere. How often an address may
// ask is bounded: a crowd that starts at once does not come near, and who asks on and
// on is not read for as long as it takes to be within the rate again. Nothing is lost
// by that. Only who comes with ever more connections has requests dropped.
const (
	askRate  = 4096     // requests in a second
	askBurst = 16 << 10 // that may come at once
	askDebt  = 64 << 10 // beyond it requests are dropped
)

// maxRates is how many addresses are remembered before those are forgotten that have
// not asked lately.
const maxRates = 1024

// rate is how much an address has asked.
type rate struct {
	left  float64       // requests that it may still make at once, negative in debt
	since time.Duration // when that was so
}

// take counts a request, and returns how long the address is in debt.
func (r *rate) take(now time.Duration) time.Duration {
	r.left = r.at(now) - 1
	r.since = now
	if r.left >= 0 {
		return 0
	}
	return time.Duration(-r.left / askRate * float64(time.Second))
}

// at is how much is left at a later time.
func (r *rate) at(now time.Duration) float64 {
	return min(r.left+(now-r.since).Seconds()*askRate, askBurst)
}

// mayAsk reports whether a request of a peer is to be looked at.
func (w *Worker) mayAsk(from *source) bool {
	if from.locator() == nil {
		return true
	}
	who := from.payer.account.Source()
	now := w.uctw.Now()
	r := w.rates[who]
	if r == nil {
		r = w.newRate(who, now)
	}
	if r.at(now) <= -askDebt {
		if w.refused(from, ledger.TooManyEps) {
			log.Warn("requests dropped: too many from one address", zap.String("worker", w.name), zap.Stringer("from", who))
		}
		return false
	}
	if wait := r.take(now); wait > 0 {
		from.pause(wait)
	}
	return true
}

func (w *Worker) newRate(who ledger.Source, now time.Duration) *rate {
	if len(w.rates) >= maxRates {
		for a, r := range w.rates {
			if r.at(now) >= askBurst {
				delete(w.rates, a)
			}
		}
	}
	r := &rate{left: askBurst, since: now}
	if len(w.rates) >= 16*maxRates {
		return r // they have all asked within the last seconds
	}
	if w.rates == nil {
		w.rates = make(map[ledger.Source]*rate)
	}
	w.rates[who] = r
	return r
}

// pause reads nothing more of a connection for a while.
func (s *source) pause(d time.Duration) {
	p, ok := s.uct.Owner.(uct.SourcePauser)
	if !ok || s.hasty {
		return
	}
	_, err := s.w.uctw.Timers().After(d, func() {
		s.hasty = false
		if s.uct != nil && !s.paused {
			p.ResumeSource()
		}
	})
	if err == nil {
		s.hasty = true
		p.PauseSource()
	}
}
