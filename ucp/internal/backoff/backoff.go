// Package backoff says what a goroutine does between rounds of progress that find nothing,
// while it waits for a peer.
//
// Spinning is the fastest way to wait where the peer has a CPU of its own and answers soon.
// Where it shares the CPU of the waiting goroutine it can only answer once that yields. In all
// other cases both take CPU time from other processes for nothing, and it is best to sleep. The
// kernel does not tell which of these is the case, but the past does: a way that has failed
// several times in a row is left out of the next waits, of ever more of them, and tried again
// in between. A way that succeeds again is taken again.
//
// A wait goes through stages, each of which may be left out:
//
//	fresh -> spinning -> yielding -> asleep
//
// Virtual machines do the same before they halt a virtual CPU ("halt polling",
// Documentation/virt/kvm/halt-polling.rst of Linux), with spinning alone.
//
// The package starts nothing and sleeps never: it is told the results of rounds, and returns
// the next step.
package backoff

import (
	"runtime"
	"time"

	"github.com/ucx-go/ucx/internal/sys"
)

// Policy says which ways of waiting may be taken.
type Policy uint8

const (
	Adaptive Policy = iota // those that have succeeded lately
	Latency                // spinning alone, for ever
	CPU                    // sleep at once
)

// Backoff is the waits of one worker. One goroutine at a time uses it. The zero value is not
// usable: it has no clock.
type Backoff struct {
	Policy Policy

	now    func() time.Duration
	stage  stage
	rounds int           // in this stage
	since  time.Duration // when the stage began, or the yield under way
	spun   bool          // in this wait, without result
	spin   history
	yield  history
}

// New returns a Backoff with a clock, which need not begin at any particular time.
func New(p Policy, now func() time.Duration) Backoff { return Backoff{Policy: p, now: now} }

// Fresh returns a Backoff with the same policy and clock that has no history.
func (p *Backoff) Fresh() Backoff { return New(p.Policy, p.now) }

// Step is what a waiting goroutine does next.
type Step uint8

const (
	Spin  Step = iota // another round of progress
	Rest              // let other goroutines run
	Yield             // let other processes run as well
	Sleep             // until something happens
)

// Take does the step, unless that is Sleep, which only the caller can do.
func (s Step) Take() {
	switch s {
	case Rest:
		runtime.Gosched()
	case Yield:
		runtime.Gosched()
		sys.Yield()
	}
}

type stage uint8

const (
	fresh stage = iota
	spinning
	yielding
)

const (
	// spinTime is how long a wait spins: as long as it takes to fall asleep and to be
	// woken, so that two sides that both sleep can come to spin both.
	spinTime = 50 * time.Microsecond

	// lookRounds is after how many rounds the clock is read, and other goroutines may run.
	lookRounds = 32

	// yields is how often a wait yields before it sleeps. A yield that takes yieldTime has
	// let processes run that are not the peer.
	yields    = 8
	yieldTime = 200 * time.Microsecond
)

// Next says what to do after a round that has handled n events.
func (p *Backoff) Next(n int) Step {
	if n > 0 {
		if p.stage != fresh {
			p.happened()
		}
		return Spin
	}
	switch p.rounds++; p.stage {
	case spinning:
		if p.rounds%lookRounds != 0 {
			return Spin
		}
		return p.spunOn()
	case yielding:
		return p.yielded()
	}
	return p.start()
}

// start chooses the first way of a wait.
func (p *Backoff) start() Step {
	p.rounds, p.spun = 0, false
	if p.Policy != CPU && (p.Policy == Latency || p.spin.worthTrying()) {
		p.stage, p.spun = spinning, true
		return Spin
	}
	return p.startYield()
}

// spunOn decides whether a wait goes on spinning.
func (p *Backoff) spunOn() Step {
	now := p.now()
	if p.rounds == lookRounds {
		p.since = now
	}
	if p.Policy == Latency || now-p.since < spinTime {
		return Rest
	}
	return p.startYield()
}

func (p *Backoff) startYield() Step {
	if p.Policy == CPU || !p.yield.worthTrying() {
		return p.sleep()
	}
	p.stage, p.rounds, p.since = yielding, 0, p.now()
	return Yield
}

// yielded decides whether a wait yields again.
func (p *Backoff) yielded() Step {
	now := p.now()
	if p.rounds >= yields || now-p.since > yieldTime {
		p.yield.failed()
		return p.sleep()
	}
	p.since = now
	return Yield
}

func (p *Backoff) sleep() Step {
	if p.spun {
		p.spin.failed()
	}
	p.stage = fresh
	return Sleep
}

// End ends a wait, whatever brought that about.
func (p *Backoff) End() { p.stage = fresh }

// happened ends a wait that something has ended while the goroutine was awake.
func (p *Backoff) happened() {
	switch p.stage {
	case spinning:
		p.spin.succeeded()
	case yielding:
		if p.spun {
			p.spin.failed()
		}
		if p.now()-p.since > yieldTime {
			p.yield.failed()
		} else {
			p.yield.succeeded()
		}
	}
	p.stage = fresh
}

// history is whether a way of waiting has succeeded lately.
type history struct {
	failures uint8 // that no success has made up for
	skip     uint8 // waits until the way is tried again
	skips    uint8 // value of skip the last time
}

const (
	maxFailures = 4   // failures in a row before a way is given up
	maxSkips    = 255 // waits between two trials
)

// worthTrying reports whether a wait is to try the way.
func (h *history) worthTrying() bool {
	if h.skip > 0 {
		h.skip--
		return false
	}
	return true
}

func (h *history) succeeded() {
	if h.failures > 0 {
		h.failures--
	}
	h.skips = 0
}

func (h *history) failed() {
	if h.failures < maxFailures {
		h.failures++
		return
	}
	h.skips = min(2*h.skips+1, maxSkips)
	h.skip = h.skips
}
