//go:build linux

package ud

import (
	"time"

	"github.com/ucx-go/ucx/ucs/event"
)

// alarm is the timer of an interface. It is set to the next time at which the state machine has to
// be called. It is not moved when that time becomes later; then it expires once without effect. So
// a busy connection sets the timer every few milliseconds, not with every message.
type alarm struct {
	timer *event.Timer
	at    int64 // time of the expiry, 0: not set
	due   bool  // the time of the next expiry may have changed, see watch

	rounds uint // rounds of progress with the timer set
}

// lookGap is the number of rounds between checks of the clock.
const lookGap = 16

// look calls ring when the alarm is due. The worker does so too, but it checks its timers only once
// in hundreds of rounds, between which a program may do much other work.
func (i *iface) look() {
	a := &i.alarm
	if a.rounds++; a.rounds%lookGap == 0 && int64(i.Worker.RoughNow()) >= a.at {
		i.ring()
	}
}

// watch sets the timer if the state machine has to be called earlier than the timer expires.
func (i *iface) watch() {
	a := &i.alarm
	a.due = false
	due, ok := i.flow.Soonest()
	if !ok || a.at != 0 && a.at <= due || i.closed {
		return
	}
	i.setTimer(due)
}

// setTimer sets the timer to due.
func (i *iface) setTimer(due int64) {
	// Setting a timer that exists cannot fail: its arguments are in range.
	i.alarm.timer.Reset(time.Duration(due) - i.Worker.Now())
	i.alarm.at = max(due, 1)
}

// stop stops the timer for good.
func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
