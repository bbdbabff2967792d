package admit

import (
	"fmt"
	"time"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
)

// Limits on the requests and look-ups of one source. Many peers that start at once stay far below
// them. A source that sends requests too fast loses none: its connections are not read until it is
// within the rate again. Connections are closed only if the source keeps opening new ones.
const (
	RequestRate      = 4096     // requests per second
	RequestBurst     = 16 << 10 // requests that may come at once
	RequestOverdraft = 64 << 10 // requests beyond the burst after which connections are closed

	LookupBurst = time.Second // time that look-ups for requests of one source may take at once
	LookupShare = 8           // after the burst, look-ups may take 1/LookupShare of the time
)

// maxRates is the number of sources from which on Rates forgets the sources without recent
// requests, at most once per forgetInterval, because that visits all sources. maxBusyRates is the
// largest number of sources that are remembered.
const (
	maxRates       = 1024
	maxBusyRates   = 16 * maxRates
	forgetInterval = time.Second
)

// Rates holds a Rate for each source with recent requests.
type Rates struct {
	Clock    func() time.Duration // monotonic clock that measures look-ups
	bySource map[ledger.Source]*Rate
	forgetAt time.Duration // earliest time to forget sources again
}

// Of returns the rate of a source, nil if none is remembered.
func (t *Rates) Of(who ledger.Source) *Rate { return t.bySource[who] }

// Take counts a request of a source at a time of the worker's clock. It returns how long the worker
// should not read the source's connection, and an error if the connection should be dropped.
func (t *Rates) Take(who ledger.Source, now time.Duration) (wait time.Duration, err error) {
	r := t.bySource[who]
	if r == nil {
		r = t.add(who, now)
	}
	if r.TokensAt(now) <= -RequestOverdraft {
		return 0, errTooOften
	}
	return r.take(now), nil
}

var errTooOften = fmt.Errorf("ucp: request rate limit exceeded: burst of %d, then %d a second: %w", RequestBurst+RequestOverdraft, RequestRate, ucs.ErrExceedsLimit)

func (t *Rates) add(who ledger.Source, now time.Duration) *Rate {
	if len(t.bySource) >= maxRates && now >= t.forgetAt {
		t.forgetAt = now + forgetInterval
		for a, r := range t.bySource {
			if r.TokensAt(now) >= RequestBurst && r.Lookups.SpentAt(t.Clock()) == 0 && r.Resolutions.SpentAt(t.Clock()) == 0 {
				delete(t.bySource, a)
			}
		}
	}
	r := &Rate{Tokens: RequestBurst, Updated: now}
	if len(t.bySource) >= maxBusyRates {
		return r // all remembered sources have sent requests within the last seconds
	}
	if t.bySource == nil {
		t.bySource = make(map[ledger.Source]*Rate)
	}
	t.bySource[who] = r
	return r
}

// timed runs a look-up for a source, and charges the source with the time that it takes.
func (t *Rates) timed(who ledger.Source, look func() bool) bool {
	r := t.bySource[who]
	if r == nil {
		return look()
	}
	began := t.Clock()
	found := look()
	r.Lookups.Add(began, t.Clock())
	return found
}

// exhausted reports whether look-ups for a source have taken too much time.
func (t *Rates) exhausted(who ledger.Source) bool {
	r := t.bySource[who]
	return r != nil && r.Lookups.Exhausted(t.Clock())
}

// Rate is a token bucket for the requests of a source, and the time spent on look-ups for them.
type Rate struct {
	Tokens  float64       // requests that the source may make at once, negative above the rate
	Updated time.Duration // time at which Tokens was computed

	Lookups     Budget // time spent on look-ups for the source
	Resolutions Budget // time spent on resolving addresses that were then unreachable
}

// TokensAt returns the value of Tokens at a later time.
func (r *Rate) TokensAt(now time.Duration) float64 {
	return min(r.Tokens+(now-r.Updated).Seconds()*RequestRate, RequestBurst)
}

// take counts a request. It returns the time until Tokens is no longer negative.
func (r *Rate) take(now time.Duration) time.Duration {
	r.Tokens = r.TokensAt(now) - 1
	r.Updated = now
	if r.Tokens >= 0 {
		return 0
	}
	return time.Duration(-r.Tokens / RequestRate * float64(time.Second))
}

// Budget is the time that was spent for a source. It decreases by 1/LookupShare of the time that
// elapses.
type Budget struct {
	Spent time.Duration
	When  time.Duration // time at which Spent was computed
}

// SpentAt returns the value of Spent at a later time.
func (b *Budget) SpentAt(now time.Duration) time.Duration {
	return max(b.Spent-(now-b.When)/LookupShare, 0)
}

// Add adds the time from began to now. Time that an earlier call has added already counts once.
func (b *Budget) Add(began, now time.Duration) {
	if began = max(began, b.When); now > began {
		b.Spent, b.When = b.SpentAt(began)+now-began, now
	}
}

// Exhausted reports whether the time spent has reached LookupBurst.
func (b *Budget) Exhausted(now time.Duration) bool { return b.SpentAt(now) >= LookupBurst }
