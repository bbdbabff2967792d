package ucp

import (
	"fmt"
	"time"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Rate limits for requests. A request of a peer makes the worker connect to an address. How often
// a source may ask is bounded: many peers that start at once stay far below the bound, and a
// source that asks on and on is not read for as long as it takes to be within the rate again.
// Nothing is lost by that. Only a source that keeps opening more connections has them closed, so
// that no peer waits for an answer that does not come.
//
// A process of this machine can also make a request take long, by what the process names in its
// address and by how many descriptors, mappings and sockets it has. If look-ups for a source have
// taken too much time, no more are made for the source until that time is made up for: the source
// gets lanes that need no look-up of processes, and answers over the connection that it asks on.
const (
	askRate  = 4096     // requests per second
	askBurst = 16 << 10 // requests that may come at once
	askDebt  = 64 << 10 // requests of debt beyond which a connection that brings a request is closed

	askMost  = time.Second // what look-ups for requests of one source may take at once
	askShare = 8           // afterwards look-ups may take 1/askShare of the time
)

// maxRates is how many sources are remembered before those are forgotten that have not asked
// lately.
const maxRates = 1024

// requestRate is how much a source has asked.
type requestRate struct {
	tokens  float64       // requests that the source may still make at once, negative in debt
	updated time.Duration // time of tokens

	lookups  timeBudget // for look-ups
	searches timeBudget // for searches for routes that do not exist
}

// timeBudget is the time that was spent for a source.
type timeBudget struct {
	spent time.Duration
	when  time.Duration // time of spent, by askClock
}

// spentAt returns what is left of spent at a later time.
func (s *timeBudget) spentAt(now time.Duration) time.Duration {
	return max(s.spent-(now-s.when)/askShare, 0)
}

// add adds the time since began. Time that an earlier call has added already counts once.
func (s *timeBudget) add(began time.Duration) {
	now := askClock()
	if began = max(began, s.when); now > began {
		s.spent, s.when = s.spentAt(began)+now-began, now
	}
}

// exhausted reports whether too much time was spent, at least askMost.
func (s *timeBudget) exhausted() bool { return s.spent > 0 && s.spentAt(askClock()) >= askMost }

// take counts a request, and returns how long the source is in debt.
func (r *requestRate) take(now time.Duration) time.Duration {
	r.tokens = r.tokensAt(now) - 1
	r.updated = now
	if r.tokens >= 0 {
		return 0
	}
	return time.Duration(-r.tokens / askRate * float64(time.Second))
}

// tokensAt returns the tokens at a later time.
func (r *requestRate) tokensAt(now time.Duration) float64 {
	return min(r.tokens+(now-r.updated).Seconds()*askRate, askBurst)
}

// checkRate counts a request of a peer. It pauses a source in debt. If the debt has reached
// askDebt it returns an error, which drops the connection.
func (ad *admission) checkRate(from *source) error {
	w := ad.w
	if from.locator() == nil {
		return nil
	}
	who := from.account().ledger.Source()
	now := w.uctw.Now()
	r := ad.rates[who]
	if r == nil {
		r = ad.newRate(who, now)
	}
	if r.tokensAt(now) <= -askDebt {
		err := fmt.Errorf("ucp: more than %d requests at once and %d a second: %w", askBurst+askDebt, askRate, ucs.ErrExceedsLimit)
		w.accounts.logRefusal(from.account().ledger, ledger.TooManyEps, err)
		return err
	}
	if wait := r.take(now); wait > 0 {
		from.pause(wait)
	}
	return nil
}

// askClock returns the time; tests replace it.
var askClock = monotonic

// started is about the time at which the program started.
var started = time.Now()

// monotonic returns the time since the program started.
func monotonic() time.Duration { return time.Since(started) }

// timeLookup runs a look-up for a request, and charges the source of the request with the time
// that the look-up takes.
func (ad *admission) timeLookup(from *source, look func() bool) bool {
	r := ad.rates[from.account().ledger.Source()]
	if r == nil {
		return look()
	}
	began := askClock()
	found := look()
	r.lookups.add(began)
	return found
}

// lookupsExhausted reports whether look-ups for a source have taken too much time.
func (ad *admission) lookupsExhausted(from *source) bool {
	r := ad.rates[from.account().ledger.Source()]
	return r != nil && r.lookups.exhausted()
}

func (ad *admission) newRate(who ledger.Source, now time.Duration) *requestRate {
	if len(ad.rates) >= maxRates {
		for a, r := range ad.rates {
			if r.tokensAt(now) >= askBurst && r.lookups.spentAt(askClock()) == 0 && r.searches.spentAt(askClock()) == 0 {
				delete(ad.rates, a)
			}
		}
	}
	r := &requestRate{tokens: askBurst, updated: now}
	if len(ad.rates) >= 16*maxRates {
		return r // all remembered sources have asked within the last seconds
	}
	if ad.rates == nil {
		ad.rates = make(map[ledger.Source]*requestRate)
	}
	ad.rates[who] = r
	return r
}

// pause stops reading the connection for d, if the transport can do that.
func (s *source) pause(d time.Duration) {
	p, ok := s.uct.Owner.(uct.SourcePauser)
	if !ok || s.rateLimited {
		return
	}
	_, err := s.w.uctw.Timers().After(d, func() {
		s.rateLimited = false
		s.readOn()
	})
	if err == nil {
		s.rateLimited = true
		p.PauseSource()
	}
}

// Deferred requests. A request names addresses, and some of them the system has to resolve on the
// network (uct.WaySeeker). Nothing answers for an address that is made up, and a worker that
// waited for the result would do nothing else meanwhile. So a request is deferred until all
// addresses are resolved, and its source is not read meanwhile. Then the request is handled once
// more, and an address that was not found gets no lane. If searches without a result have taken
// too much time for a source, no more are made for the source until that time is made up for: the
// source gets the lanes to resolved addresses.

// deferredRequest is a request that waits until its addresses are resolved.
type deferredRequest struct {
	from       *source
	rate       *requestRate // of the source, used also after its connection is closed; nil: no time is charged
	message    []byte
	proved     bool
	resolving  int // addresses that are still being resolved
	began      time.Duration
	unresolved bool // an address was not found
	replayed   bool // the request is being handled once more
}

// maxResolving is how many addresses of a request are resolved: each device has one.
const maxResolving = 8

// origin returns where the addresses in a message of the source come from. Messages through
// memory of this process are trusted (admission.validateAddress).
func (s *source) origin() uct.Origin {
	if s.locator() == nil {
		return uct.OriginApplication
	}
	return uct.OriginPeer
}

// replaying reports whether the message of the source that is being handled was deferred before.
func (s *source) replaying() bool { return s.deferred != nil && s.deferred.replayed }

// deferRequest defers a request with this address if one of its entries has to be resolved, and
// reports whether it has.
func (ad *admission) deferRequest(from *source, addr *proto.WorkerAddress, message []byte, proved bool) bool {
	w := ad.w
	if from.deferred != nil || from.origin() != uct.OriginPeer {
		return false
	}
	k := &deferredRequest{from: from, rate: ad.rates[from.account().ledger.Source()], proved: proved, began: askClock()}
	if k.rate != nil && k.rate.searches.exhausted() {
		return false
	}
	addr.Ifaces(func(_ int, dev *proto.AddressDevice, f *proto.AddressIface) bool {
		for _, i := range w.ifaces {
			s, seeks := i.uct.(uct.WaySeeker)
			if i.id == f.Transport && seeks && k.resolving < maxResolving &&
				s.SeekWay(uct.ReachableParams{DeviceAddr: dev.Addr, IfaceAddr: f.Addr}, k.resolved) {
				k.resolving++
			}
		}
		return true
	})
	if k.resolving == 0 {
		return false
	}
	k.message = append([]byte(nil), message...)
	from.deferred = k
	if p, ok := from.uct.Owner.(uct.SourcePauser); ok {
		p.PauseSource()
	}
	return true
}

// resolved is called at the end of the search for one of the addresses. so says that the peer can
// be reached there.
func (k *deferredRequest) resolved(so bool) {
	k.unresolved = k.unresolved || !so
	if k.resolving--; k.resolving > 0 {
		return
	}
	s := k.from
	if k.rate != nil && k.unresolved {
		k.rate.searches.add(k.began)
	}
	if s.uct == nil {
		return // the connection of the requester is gone
	}
	k.replayed = true
	err := s.w.admission.replay(s.uct, k.message)
	s.deferred = nil
	if err != nil && s.uct != nil {
		s.uct.Drop(err)
	}
	s.readOn()
}
