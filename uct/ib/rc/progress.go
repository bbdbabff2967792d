//go:build linux

package rc

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/internal/kit"
)

// Progress implements uct.Progressor. Completions of sends are looked at in every round
// in which there may be some: what is received would otherwise keep from sending whoever
// has filled the queue.
func (i *iface) Progress() int {
	n := i.ReadNews()
	if i.credits < i.total || len(i.retired.sends) > 0 {
		n += i.pollSends()
		if i.closed { // by somebody who was told
			return n
		}
	}
	wc, full := i.Received()
	if len(wc) > 0 {
		n += i.deliver(wc, full)
	} else if i.quiet != 0 {
		i.quiet = 0
		n += i.queueEmpty(len(i.retired.ends))
	}
	if i.busy() {
		n += i.rest(full)
	}
	if i.tails.Len() > 0 && n == 0 {
		i.quietRound()
	}
	return n
}

// pollSends takes completions of sends.
func (i *iface) pollSends() int {
	dead := len(i.retired.sends)
	wc, full := i.Sent()
	for k := range wc {
		i.sent(&wc[k])
	}
	if !full {
		i.emptied++
		if dead > 0 {
			i.releaseSends(dead)
		}
	}
	return len(wc)
}

// sent handles the completion of a request: all before it on the same endpoint are over as
// well.
func (i *iface) sent(wc *verbs.WC) {
	index, count := wc.ID>>32, uint32(wc.ID)
	if index >= uint64(len(i.eps)) {
		return
	}
	e := i.eps[index]
	if e == nil || e.qpn != wc.QPN {
		return // it has ended
	}
	n := count - e.done
	if n == 0 || n > e.outstanding() {
		return // not of what is under way
	}
	if wc.Status != verbs.WCSuccess {
		if e.failed != nil {
			return // it ends with what it holds
		}
		if e.silent != nil || e.loses(count) {
			e.lose(wc.Status, count)
			return
		}
		e.sendFailed(wc.Status)
		count, n = count-1, n-1 // those before it went well
	}
	e.done = count
	i.credits += int(n)
	if e.failed == nil {
		e.room += int(n)
	}
	e.completed(count)
	if e.failed != nil {
		e.marked(count + 1)
	}
	if e.unsignaled > 0 && e.unsignaled == e.outstanding() {
		e.markTail()
	}
}

// deliver handles completions of receives, and posts new buffers.
func (i *iface) deliver(wc []verbs.WC, full bool) int {
	dead := len(i.retired.ends)
	i.quiet = 1
	for k := range wc {
		i.received(&wc[k])
		if i.closed { // by a handler
			return len(wc)
		}
	}
	n := len(wc)
	if !full {
		n += i.queueEmpty(dead)
	} else {
		i.refill()
	}
	return n
}

// queueEmpty is called when there is nothing more to receive, and was not either of the first
// dead endpoints in limbo.
func (i *iface) queueEmpty(dead int) (n int) {
	n = i.releaseReceives(dead)
	if !i.closed {
		i.recvs.Idle()
		i.refill()
	}
	return n
}

// refill posts buffers. If that goes wrong the device is gone, of which others tell.
func (i *iface) refill() { i.recvs.Refill() }

// busy reports whether somebody waits for room, or to be told of a failure.
func (i *iface) busy() bool {
	return i.grants.Len() > 0 || i.resumed.Len() > 0 || !i.Waiting.Empty() || !i.Failures.Empty()
}

// rest lets those go on who wait. full says that more may have been received.
func (i *iface) rest(full bool) (n int) {
	n = i.deliverPutOff() + i.sendGrants()
	if !i.Waiting.Empty() {
		n += i.Waiting.Dispatch()
		i.growForWaiting()
	}
	if i.Failures.Empty() {
		i.late = 0
		return n
	}
	// What a peer had sent before it went is delivered before its end is told of. The device may
	// tell of the end while that is still in the queue of receives; with datagrams the end is
	// found out by what was received, or not, and so behind it.
	if i.late++; full && i.late < maxLate {
		return n
	}
	i.late = 0
	return n + i.Failures.Report()
}

// maxLate bounds the rounds for which other messages keep back the news of a failure.
const maxLate = 1024

// Arm implements uct.Armer. Whoever sleeps over requests that are under way is woken by
// those that ask for a completion, whether anybody waits for them or not: no other event
// would tell that one has failed. That is a wakeup or two for a burst, since few of its
// requests ask; C UCX arms for all sends, too (uct_rc_iface_arm_cq_check).
func (i *iface) Arm() error { return i.ArmFor(uct.EventAny) }

// ArmFor implements uct.EventArmer. Where requests wait to be sent they wait for completions of
// others, or for the peer's grants, which arrive as messages do.
func (i *iface) ArmFor(events uct.EventFlags) error {
	if len(i.retired.sends) > 0 || i.resumed.Len() > 0 || !i.Waiting.All(cannotSend) {
		return ucs.ErrBusy
	}
	i.confirmTails()
	if !i.Waiting.Empty() {
		events = uct.EventAny
	}
	if i.credits == i.total {
		events &^= uct.EventSendComp
	}
	return i.Iface.Arm(events)
}

func cannotSend(s kit.Sender) bool { return s.Room() != kit.Open }
