package ucp

import (
	"runtime"
	"time"

	"github.com/ucx-go/ucx/internal/sys"
)

// pace says what a goroutine does between rounds of progress that find nothing, while it
// waits for a peer. Spinning is the fastest where the peer runs beside us and answers
// soon. Where it shares our CPU it answers as soon as we yield. Everywhere else both
// take CPU from others for nothing. Nothing tells which of these it is, but what
// has paid lately: so a way that fails is given up, and tried again rarely.
//
// It is what KVM does before it halts a virtual CPU ("halt polling",
// Documentation/virt/kvm/halt-polling.rst of Linux), which knows one way.
type pace struct {
	rule   WaitPolicy
	stage  stage
	rounds int           // in this stage
	since  time.Duration // its begin, or that of the yield under way
	spun   bool          // in this wait, without result
	spin   habit
	yield  habit
}

// paceStep is what to do next.
type paceStep uint8

const (
	paceSpin  paceStep = iota // another round
	paceRest                  // let other goroutines run
	paceYield                 // let other processes run, too
	paceSleep                 // until something happens
)

// take does it, unless it is to sleep.
func (s paceStep) take() {
	switch s {
	case paceRest:
		runtime.Gosched()
	case paceYield:
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
func (p *pace) next(n int) paceStep {
	if n > 0 {
		if p.stage != fresh {
			p.happened()
		}
		return paceSpin
	}
	switch p.rounds++; p.stage {
	case spinning:
		if p.rounds%lookRounds != 0 {
			return paceSpin
		}
		return p.spunOn()
	case yielding:
		return p.yielded()
	}
	return p.start()
}

// start chooses the first way.
func (p *pace) start() paceStep {
	p.rounds, p.spun = 0, false
	if p.rule != WaitCPU && (p.rule == WaitLatency || p.spin.worth()) {
		p.stage, p.spun = spinning, true
		return paceSpin
	}
	return p.startYield()
}

// spunOn goes on spinning, or not.
func (p *pace) spunOn() paceStep {
	now := waitClock()
	if p.rounds == lookRounds {
		p.since = now
	}
	if p.rule == WaitLatency || now-p.since < spinTime {
		return paceRest
	}
	return p.startYield()
}

func (p *pace) startYield() paceStep {
	if p.rule == WaitCPU || !p.yield.worth() {
		return p.sleep()
	}
	p.stage, p.rounds, p.since = yielding, 0, waitClock()
	return paceYield
}

// yielded yields again, or not.
func (p *pace) yielded() paceStep {
	now := waitClock()
	if p.rounds >= yields || now-p.since > yieldTime {
		p.yield.failed()
		return p.sleep()
	}
	p.since = now
	return paceYield
}

func (p *pace) sleep() paceStep {
	if p.spun {
		p.spin.failed()
	}
	p.stage = fresh
	return paceSleep
}

// end notes that a wait is over, whatever brought that about.
func (p *pace) end() { p.stage = fresh }

// happened ends a wait in which something has happened.
func (p *pace) happened() {
	switch p.stage {
	case spinning:
		p.spin.paid()
	case yielding:
		if p.spun {
			p.spin.failed()
		}
		if waitClock()-p.since > yieldTime {
			p.yield.failed()
		} else {
			p.yield.paid()
		}
	}
	p.stage = fresh
}

// habit is whether a way of waiting has paid lately.
type habit struct {
	debt  uint8 // failures that no success has made up for
	skip  uint8 // waits until it is tried again
	skips uint8 // how many those were the last time
}

const (
	maxDebt  = 4   // failures in a row before a way is given up
	maxSkips = 255 // waits between two trials
)

// worth reports whether the way is to be tried in this wait.
func (h *habit) worth() bool {
	if h.skip > 0 {
		h.skip--
		return false
	}
	return true
}

func (h *habit) paid() {
	if h.debt > 0 {
		h.debt--
	}
	h.skips = 0
}

func (h *habit) failed() {
	if h.debt < maxDebt {
		h.debt++
		return
	}
	h.skips = min(2*h.skips+1, maxSkips)
	h.skip = h.skips
}

// started is when the program did, about.
var started = time.Now()

// monotonic is the time since then.
func monotonic() time.Duration { return time.Since(started) }
