package ucp

import (
	"runtime"
	"time"

	"github.com/ucx-go/ucx/internal/sys"
)

// backoff says what a goroutine does between rounds of progress that find nothing, while it
// waits for a peer. Spinning is the fastest where the peer runs beside us and answers
// soon. Where it shares our CPU it answers as soon as we yield. Everywhere else both
// take CPU from others for nothing. Nothing tells which of these it is, but what
// has paid lately: so a way that fails is given up, and tried again rarely.
//
// It is what KVM does before it halts a virtual CPU ("halt polling",
// Documentation/virt/kvm/halt-polling.rst of Linux), which knows one way.
type backoff struct {
	rule   WaitPolicy
	stage  stage
	rounds int           // in this stage
	since  time.Duration // its begin, or that of the yield under way
	spun   bool          // in this wait, without result
	spin   history
	yield  history
}

// backoffStep is what to do next.
type backoffStep uint8

const (
	backoffSpin  backoffStep = iota // another round
	backoffRest                     // let other goroutines run
	backoffYield                    // let other processes run, too
	backoffSleep                    // until something happens
)

// take does it, unless it is to sleep.
func (s backoffStep) take() {
	switch s {
	case backoffRest:
		runtime.Gosched()
	case backoffYield:
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
	// woken, so that two sides that sleep both can come to spin both.
	spinTime = 50 * time.Microsecond

	// lookRounds is how often the clock is read meanwhile, and others may run.
	lookRounds = 32

	// yields are what a wait does before it sleeps. One that takes yieldTime has let
	// somebody run who is not our peer.
	yields    = 8
	yieldTime = 200 * time.Microsecond
)

// waitClock is the time; tests have their own.
var waitClock = monotonic

// next says what to do after a round that has handled n events.
func (p *backoff) next(n int) backoffStep {
	if n > 0 {
		if p.stage != fresh {
			p.happened()
		}
		return backoffSpin
	}
	switch p.rounds++; p.stage {
	case spinning:
		if p.rounds%lookRounds != 0 {
			return backoffSpin
		}
		return p.spunOn()
	case yielding:
		return p.yielded()
	}
	return p.start()
}

// start chooses the first way.
func (p *backoff) start() backoffStep {
	p.rounds, p.spun = 0, false
	if p.rule != WaitCPU && (p.rule == WaitLatency || p.spin.worthTrying()) {
		p.stage, p.spun = spinning, true
		return backoffSpin
	}
	return p.startYield()
}

// spunOn goes on spinning, or not.
func (p *backoff) spunOn() backoffStep {
	now := waitClock()
	if p.rounds == lookRounds {
		p.since = now
	}
	if p.rule == WaitLatency || now-p.since < spinTime {
		return backoffRest
	}
	return p.startYield()
}

func (p *backoff) startYield() backoffStep {
	if p.rule == WaitCPU || !p.yield.worthTrying() {
		return p.sleep()
	}
	p.stage, p.rounds, p.since = yielding, 0, waitClock()
	return backoffYield
}

// yielded yields again, or not.
func (p *backoff) yielded() backoffStep {
	now := waitClock()
	if p.rounds >= yields || now-p.since > yieldTime {
		p.yield.failed()
		return p.sleep()
	}
	p.since = now
	return backoffYield
}

func (p *backoff) sleep() backoffStep {
	if p.spun {
		p.spin.failed()
	}
	p.stage = fresh
	return backoffSleep
}

// end notes that a wait is over, whatever brought that about.
func (p *backoff) end() { p.stage = fresh }

// happened ends a wait in which something has happened.
func (p *backoff) happened() {
	switch p.stage {
	case spinning:
		p.spin.succeeded()
	case yielding:
		if p.spun {
			p.spin.failed()
		}
		if waitClock()-p.since > yieldTime {
			p.yield.failed()
		} else {
			p.yield.succeeded()
		}
	}
	p.stage = fresh
}

// history is whether a way of waiting has paid lately.
type history struct {
	failures uint8 // failures that no success has made up for
	skip     uint8 // waits until it is tried again
	skips    uint8 // how many those were the last time
}

const (
	maxFailures = 4   // failures in a row before a way is given up
	maxSkips    = 255 // waits between two trials
)

// worthTrying reports whether the way is to be tried in this wait.
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

// started is when the program did, about.
var started = time.Now()

// monotonic is the time since then.
func monotonic() time.Duration { return time.Since(started) }
