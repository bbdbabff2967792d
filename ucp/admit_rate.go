package ucp

import (
	"fmt"
	"time"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// What peers ask for makes the worker connect to somewhere. How often an address may
// ask is bounded: a crowd that starts at once does not come near, and who asks on and
// on is not read for as long as it takes to be within the rate again. Nothing is lost
// by that. Only who comes with ever more connections has these closed, so that nobody
// waits for an answer that does not come.
//
// A process of this machine can make a request take long as well, by what it names in
// its address, and by how much of it there is: descriptors, mappings, sockets. Who has
// taken too much time by that is not looked for until it is made up for: he gets lanes
// that need no look at processes, and his answers over the connection he asks on.
const (
	askRate  = 4096     // requests in a second
	askBurst = 16 << 10 // that may come at once
	askDebt  = 64 << 10 // beyond it connections are closed that bring one

	askMost  = time.Second // what look-ups for requests of one source may take at once
	askShare = 8           // and afterwards this part of the time
)

// maxRates is how many addresses are remembered before those are forgotten that have
// not asked lately.
const maxRates = 1024

// requestRate is how much an address has asked.
type requestRate struct {
	tokens  float64       // requests that it may still make at once, negative in debt
	updated time.Duration // when that was so

	lookups  timeBudget // on look-ups
	searches timeBudget // on searches for ways that there are not
}

// timeBudget is time that was spent for somebody.
type timeBudget struct {
	spent time.Duration
	when  time.Duration // that was so, by askClock
}

// spentAt is what is left of it at a later time.
func (s *timeBudget) spentAt(now time.Duration) time.Duration {
	return max(s.spent-(now-s.when)/askShare, 0)
}

// add adds the time since something began; what was spent at the same time counts once.
func (s *timeBudget) add(began time.Duration) {
	now := askClock()
	if began = max(began, s.when); now > began {
		s.spent, s.when = s.spentAt(began)+now-began, now
	}
}

// exhausted reports whether it is too much.
func (s *timeBudget) exhausted() bool { return s.spent > 0 && s.spentAt(askClock()) >= askMost }

// take counts a request, and returns how long the address is in debt.
func (r *requestRate) take(now time.Duration) time.Duration {
	r.tokens = r.tokensAt(now) - 1
	r.updated = now
	if r.tokens >= 0 {
		return 0
	}
	return time.Duration(-r.tokens / askRate * float64(time.Second))
}

// tokensAt is how much is left at a later time.
func (r *requestRate) tokensAt(now time.Duration) float64 {
	return min(r.tokens+(now-r.updated).Seconds()*askRate, askBurst)
}

// checkRate counts a request of a peer. If there are too many the error drops the
// connection.
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

// askClock is the time; tests have their own.
var askClock = monotonic

// started is about when the program did.
var started = time.Now()

// monotonic is the time since the program started.
func monotonic() time.Duration { return time.Since(started) }

// timeLookup looks something up for a request, and charges who has asked with the time that
// takes.
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
		return r // they have all asked within the last seconds
	}
	if ad.rates == nil {
		ad.rates = make(map[ledger.Source]*requestRate)
	}
	ad.rates[who] = r
	return r
}

// pause reads nothing more of a connection for a while.
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

// A request names places, and for some of them the system has to ask the network who is
// there (uct.WaySeeker). If they are made up nobody answers, and who waits for that does
// nothing else meanwhile. So a request is kept back until all have been asked for, and
// its source is not read meanwhile. Then it is heard once more, and what has not been found
// is no lane. For whom too much time has gone into searches that were in vain nobody is
// asked until that is made up for: he gets the lanes to where a way is known.

// deferredRequest is a request that is.
type deferredRequest struct {
	from       *source
	rate       *requestRate // also when its connection is closed meanwhile; nil: nobody
	message    []byte
	proved     bool
	resolving  int // ways that are still
	began      time.Duration
	unresolved bool // one was not found
	replayed   bool // it is being heard once more
}

// maxResolving is how many ways of a request are sought: each device there is has one.
const maxResolving = 8

// origin is who has given the addresses in a message of a source. What came through memory of
// ours is believed (Worker.validateAddress).
func (s *source) origin() uct.Origin {
	if s.locator() == nil {
		return uct.OriginApplication
	}
	return uct.OriginPeer
}

// replaying reports whether the message of a source that is being handled was kept back.
func (s *source) replaying() bool { return s.deferred != nil && s.deferred.replayed }

// deferRequest has a request with this address heard later, if there is something to seek before.
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

// resolved is told that one of the ways was found, or that there is none.
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
		return // who has asked is gone
	}
	k.replayed = true
	err := s.w.admission.replay(s.uct, k.message)
	s.deferred = nil
	if err != nil && s.uct != nil {
		s.uct.Drop(err)
	}
	s.readOn()
}
