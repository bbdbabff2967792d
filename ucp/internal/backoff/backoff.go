// Package backoff decides how a goroutine waits for a peer: what it does after a round of
// progress that has handled no event.
//
// Spinning has the least latency if the peer runs on another CPU and answers soon. If the peer
// shares the CPU with the waiting goroutine, it can answer only after that goroutine yields. In
// all other cases spinning and yielding waste CPU time that other processes could use, and it is
// best to sleep. The kernel does not tell which case applies, so a Backoff learns from earlier
// waits. A way of waiting that has failed several times in a row is skipped in the next waits,
// after each further failure in more of them, and then tried again. A way that succeeds again is
// used again.
//
// A wait goes through stages, each of which may be skipped:
//
//	fresh -> spinning -> yielding -> asleep
//
// KVM does the same before it halts a virtual CPU ("halt polling",
// Documentation/virt/kvm/halt-polling.rst of Linux), but only with spinning.
//
// The package starts no goroutine and never sleeps: the caller reports the result of each round,
// and gets the next step.
package backoff

import (
	"time"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/internal/sys"
)

// Policy selects how a goroutine may wait.
type Policy uint8

// The policies of waiting. Adaptive suits most programs. Latency uses a whole processor while it
// waits. CPU uses none, and notices each event as late as the kernel wakes the goroutine.
const (
	Adaptive Policy = iota // spin or yield if that has succeeded recently, then sleep
	Latency                // only spin, without limit
	CPU                    // sleep at once
)

// Backoff decides how the waits of one worker proceed, and learns from their results. One goroutine
// at a time may use it. The zero value is not usable, because it has no clock.
type Backoff struct {
	Policy Policy

	now    func() time.Duration
	stage  stage
	rounds int           // number of rounds without an event in this stage
	since  time.Duration // time at which the stage, or the current yield, has begun
	spun   bool          // this wait has spun, without success so far
	spin   history
	yield  history
}

// New returns a Backoff without history. The clock now returns the time since any fixed moment.
func New(p Policy, now func() time.Duration) Backoff { return Backoff{Policy: p, now: now} }

// Fresh returns a Backoff with the same policy and clock that has no history.
func (p *Backoff) Fresh() Backoff { return New(p.Policy, p.now) }

// Step is what a waiting goroutine does before the next round of progress.
type Step uint8

// Steps of a wait.
const (
	Spin  Step = iota // nothing before the next round
	Rest              // let other goroutines run
	Yield             // let other goroutines and other processes run
	Sleep             // sleep until an event is pending
)

// Take carries out the step, except Sleep, which the caller must carry out.
func (s Step) Take() {
	switch s {
	case Rest:
		platform.Yield()
	case Yield:
		platform.Yield()
		if !platform.Simulated {
			sys.Yield()
		}
	}
}

type stage uint8

const (
	fresh stage = iota
	spinning
	yielding
)

const (
	// spinTime is how long a wait spins: about the time to fall asleep and to be woken, so
	// that two sides that both sleep can get to a state in which both spin.
	spinTime = platform.SpinTime

	// maxSpinTime is how long a wait that has spun with success may have taken.
	maxSpinTime = 4 * spinTime

	// lookRounds is the number of rounds of spinning after which the clock is read and other
	// goroutines may run.
	lookRounds = platform.SpinRounds

	// yields is the number of yields before a wait sleeps. A yield that takes longer than
	// yieldTime has run processes other than the peer.
	yields    = 8
	yieldTime = 200 * time.Microsecond
)

// Next returns the step after a round that has handled n events.
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

// start begins a wait and returns its first step.
func (p *Backoff) start() Step {
	p.rounds, p.spun = 0, false
	if p.Policy != CPU && (p.Policy == Latency || p.spin.worthTrying()) {
		p.stage, p.spun = spinning, true
		return Spin
	}
	return p.startYield()
}

// spunOn returns the next step of a wait that has spun for another lookRounds rounds.
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

// yielded returns the next step of a wait after a yield: another yield or sleep.
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

// End ends a wait without recording success or failure.
func (p *Backoff) End() { p.stage = fresh }

// happened ends a wait because of an event that came while the goroutine was awake, and records
// whether spinning and yielding have succeeded or failed.
func (p *Backoff) happened() {
	switch p.stage {
	case spinning:
		// If the event came long after the goroutine had spun enough, others had the CPU meanwhile. They would
		// have had it earlier if the goroutine had slept, and maybe the peer among them.
		if p.rounds >= lookRounds && p.now()-p.since > maxSpinTime {
			p.spin.failed()
		} else {
			p.spin.succeeded()
		}
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

// history records whether spinning, or yielding, has succeeded recently.
type history struct {
	failures uint8 // failures minus successes
	skip     uint8 // number of waits until it is tried again
	skips    uint8 // initial value of skip after the last failure
}

const (
	maxFailures = 4   // failures in a row before spinning or yielding is skipped
	maxSkips    = 255 // most waits that are skipped between two trials
)

// worthTrying reports whether the current wait should spin, or yield. If not, it counts the wait as
// skipped.
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
	h.skips /= 2 // not 0: among other processes that use the CPU, spinning succeeds now and then
}

func (h *history) failed() {
	if h.failures < maxFailures {
		h.failures++
		return
	}
	h.skips = min(2*h.skips+1, maxSkips)
	h.skip = h.skips
}
