//go:build linux

package rc

import (
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
	"github.com/ucx-go/ucx/uct/ib/verbs"
	"github.com/ucx-go/ucx/uct/kit"
)

// Progress implements uct.Progressor. Completions of sends are polled in every round in which
// there may be some, because otherwise received messages could keep an endpoint whose queue is full
// from sending.
func (i *iface) Progress() int {
	n := i.ReadNews()
	if i.credits < i.total || len(i.retired.sends) > 0 {
		n += i.pollSends()
		if i.closed { // by a caller that was notified
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

// pollSends handles completions of sends.
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

// sent handles the completion of a request, with which all requests before it on the same
// endpoint are complete.
func (i *iface) sent(wc *verbs.WC) {
	index, count := wc.ID>>32, uint32(wc.ID)
	if index >= uint64(len(i.eps)) {
		return
	}
	e := i.eps[index]
	if e == nil || e.qpn != wc.QPN {
		return // the endpoint has ended
	}
	n := count - e.done
	if n == 0 || n > e.outstanding() {
		return // not the count of a request in flight
	}
	if wc.Status != verbs.WCSuccess {
		if e.failed != nil {
			return // the request ends when the endpoint is destroyed
		}
		if e.silent != nil || e.losesNothing(count) {
			e.failSilently(wc.Status, count)
			return
		}
		e.sendFailed(wc.Status)
		count, n = count-1, n-1 // those before it succeeded
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

// queueEmpty is called when the receive completion queue has been seen empty, so that it holds no
// completions for the first retired endpoints; the parameter dead is the number of those. It
// returns the number of their deferred messages that it has delivered.
func (i *iface) queueEmpty(dead int) (n int) {
	n = i.releaseReceives(dead)
	if !i.closed {
		i.recvs.Idle()
		i.refill()
	}
	return n
}

// refill posts buffers. An error means that the device is gone, which is reported elsewhere.
func (i *iface) refill() { i.recvs.Refill() }

// busy reports whether grants, deferred messages or requests wait, or failures are to be
// reported.
func (i *iface) busy() bool {
	return i.grants.Len() > 0 || i.resumed.Len() > 0 || !i.Waiting.Empty() || !i.Failures.Empty()
}

// rest serves what waits: deferred messages, grants, pending requests, reports of failures.
// full is true if more may have been received.
func (i *iface) rest(full bool) (n int) {
	n = i.deliverDeferred() + i.sendGrants()
	if !i.Waiting.Empty() {
		n += i.Waiting.Dispatch()
		i.growForWaiting()
	}
	if i.Failures.Empty() {
		i.late = 0
		return n
	}
	// Messages that a peer sent before it went are delivered before its failure is reported.
	// The device may report the failure while those messages are still in the completion queue
	// of receives. With datagrams a failure is detected from what was received, or was not,
	// and so after the messages.
	if i.late++; full && i.late < maxLate {
		return n
	}
	i.late = 0
	return n + i.Failures.Report()
}

// maxLate limits the rounds of progress by which other messages may delay the report of a
// failure.
const maxLate = 1024

// Arm implements uct.Progressor. A worker that sleeps while requests are in flight is woken by
// those that ask for a completion, even if no caller waits for them, because no other event would
// report that a request has failed. That is a wakeup or two for a burst, since few of its requests
// ask for a completion; C UCX also arms for all sends (uct_rc_iface_arm_cq_check). Requests that
// wait to be sent wait for completions of other requests, or for grants of the peer, which arrive
// as messages.
func (i *iface) Arm(events uct.EventFlags) error {
	if len(i.retired.sends) > 0 || i.resumed.Len() > 0 || !i.Waiting.All(kit.NoRoom) {
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
