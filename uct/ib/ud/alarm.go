//go:build linux

package ud

import (
	"time"

	"github.com/ucx-go/ucx/ucs/event"
)

// alarm is the timer of an interface. It is set while the machine wants to be called, for
// the first time that it does, and left alone when that moves away: then it rings for
// nothing once. So a connection that is busy sets it every few milliseconds, not with
// every message.
type alarm struct {
	timer *event.Timer
	at    int64 // when it rings, 0: not set
	due   bool  // something may have changed: see watch

	rounds uint // with a timer that is set
}

// lookGap is rounds between looks at the clock.
const lookGap = 16

// look rings when it is time. The worker does so as well, but looks at its timers once
// in hundreds of rounds, and a program may do much else between these.
func (i *iface) look() {
	a := &i.alarm
	if a.rounds++; a.rounds%lookGap == 0 && int64(i.Worker.RoughNow()) >= a.at {
		i.ring()
	}
}

// watch sets the timer if it has to ring earlier than it will.
func (i *iface) watch() {
	a := &i.alarm
	a.due = false
	due, ok := i.flow.Soonest()
	if !ok || a.at != 0 && a.at <= due || i.closed {
		return
	}
	i.wind(due)
}

// wind sets the timer.
func (i *iface) wind(due int64) {
	// Setting a timer that exists cannot fail: its arguments are in range.
	i.alarm.timer.Reset(time.Duration(due) - i.Worker.Now())
	i.alarm.at = max(due, 1)
}

// stop stops it for good.
func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
