//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// Progress implements uct.Progressor.
func (i *iface) Progress() int {
	n := i.ReadNews()
	if i.sq.waits() {
		n += i.pollSends()
	}
	if !i.retired.empty() {
		i.retired.release(i)
		if i.closed { // by somebody who was told
			return n
		}
	}
	wc, full := i.Received()
	if len(wc) > 0 {
		n += i.deliver(wc, full)
	} else if i.quiet != 0 {
		i.queueEmpty()
	}
	if i.broken {
		if i.resetQP(); i.closed {
			return n
		}
	}
	if i.resumed.Len() > 0 {
		n += i.deliverLate()
		if i.closed {
			return n
		}
	}
	if i.busy() {
		n += i.rest()
		i.alarm.due = true // for what was owed, and is in flight now
	}
	if i.alarm.due {
		i.watch()
	}
	if i.alarm.at != 0 {
		i.look()
	}
	return n
}

// deliver handles completions of receives, and posts new buffers.
func (i *iface) deliver(wc []verbs.WC, full bool) int {
	i.quiet = 1
	i.alarm.due = true
	i.flow.Clock(int64(i.Worker.RoughNow()))
	for k := range wc {
		i.received(&wc[k])
		if i.closed { // by a handler
			return len(wc)
		}
	}
	i.warnRefused()
	if !full {
		i.recvs.Idle()
	}
	i.refill()
	return len(wc)
}

// queueEmpty is called when there is nothing to receive, after there was.
func (i *iface) queueEmpty() {
	i.quiet = 0
	i.recvs.Idle()
	i.refill()
}

// refill posts buffers. If that goes wrong the device is gone, of which others tell.
func (i *iface) refill() {
	if i.qp != nil {
		i.recvs.Refill()
	}
}

// busy reports whether something is owed to a peer, or somebody waits for room or to be
// told of a failure.
func (i *iface) busy() bool {
	return i.flow.Owed() || !i.Waiting.Empty() || !i.Failures.Empty() || i.dying
}

// rest lets those go on who wait: what connects and what is repeated, then messages,
// which may carry acknowledgements, then the other control packets. When these find no
// room in the queue, they are first as soon as there is some.
func (i *iface) rest() (n int) {
	if i.dying {
		i.collapse()
	}
	if i.starved {
		i.starved = !i.flow.Dispatch()
	} else {
		i.starved = !i.flow.DispatchFirst()
	}
	if !i.starved {
		n = i.Waiting.Dispatch()
		i.starved = !i.flow.Dispatch()
	}
	if i.resumed.Len() > 0 {
		return n // what was put off comes before the news that its sender is gone
	}
	return n + i.Failures.Report()
}

// ring is called when the time has come, inside progress.
func (i *iface) ring() {
	i.enter()
	defer i.leave()
	i.alarm.at = 0
	now := int64(i.Worker.Now())
	i.flow.Clock(now)
	i.inside = true
	i.flow.Tick()
	i.inside = false
	i.rest()
	if i.closed {
		return
	}
	if due, ok := i.flow.Next(now); ok {
		i.wind(due)
	}
}

// Arm implements uct.Armer. No event can be left out: acknowledgments arrive as messages do,
// and the peer waits for ours.
func (i *iface) Arm() error {
	if i.retired.ready(i) || i.dying || i.broken || i.resumed.Len() > 0 || i.flow.Owed() && i.sq.room() > 0 || !i.Waiting.All(cannotSend) {
		return ucs.ErrBusy
	}
	i.watch()
	events := uct.EventRecv
	if i.sq.waits() {
		events |= uct.EventSendComp
	}
	return i.Iface.Arm(events)
}

func cannotSend(s kit.Sender) bool { return s.Room() != kit.Open }
