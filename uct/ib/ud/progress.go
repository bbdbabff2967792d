//go:build linux

package ud

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/kit"
)

// Progress implements uct.Progressor.
func (i *iface) Progress() int {
	n := i.ReadNews()
	if i.sq.waits() {
		n += i.pollSends()
	}
	if !i.retired.empty() {
		i.retired.release(i)
		if i.closed { // by a completion callback
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
		i.alarm.due = true // for control packets that are in flight now
	}
	if i.alarm.due {
		i.watch()
	}
	if i.alarm.at != 0 {
		i.look()
	}
	return n
}

// deliver handles completions of receives and posts new buffers.
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

// queueEmpty is called when the receive queue is found empty after packets were received.
func (i *iface) queueEmpty() {
	i.quiet = 0
	i.recvs.Idle()
	i.refill()
}

// refill posts buffers. An error means that the device is gone, which is reported elsewhere.
func (i *iface) refill() {
	if i.qp != nil {
		i.recvs.Refill()
	}
}

// busy reports whether there is work for rest: control packets are owed to a peer, endpoints wait
// for room, failures are to be reported, or the interface has failed.
func (i *iface) busy() bool {
	return i.flow.Owed() || !i.Waiting.Empty() || !i.Failures.Empty() || i.dying
}

// rest continues waiting operations: packets of connection setup and repeated packets first, then
// messages, which may carry acknowledgements, then the other control packets. Control packets that
// find no room in the queue go first as soon as there is room.
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
		return n // late messages are delivered before the failure of their connection is reported
	}
	return n + i.Failures.Report()
}

// ring is called when the alarm is due, inside progress.
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
		i.setTimer(due)
	}
}

// Arm implements uct.Progressor. It ignores which events are asked for, because acknowledgements
// arrive as messages do, and the peer waits for acknowledgements of this side.
func (i *iface) Arm(uct.EventFlags) error {
	if i.retired.ready(i) || i.dying || i.broken || i.resumed.Len() > 0 || i.flow.Owed() && i.sq.room() > 0 || !i.Waiting.All(kit.NoRoom) {
		return ucs.ErrBusy
	}
	i.watch()
	events := uct.EventRecv
	if i.sq.waits() {
		events |= uct.EventSendComp
	}
	return i.Iface.Arm(events)
}
