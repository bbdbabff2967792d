package ucp

import (
	"fmt"
	"slices"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// A call that waits until a reply has left does not wait for a peer that does not read: data
// that the transport has not accepted is copied (own_data.go), and the next flush returns the
// error of a failure, as for short sends that are left to another goroutine (call.go).
//
// The data of an active message sent by rendezvous leaves when the peer reads or requests it.
// A call that sends such an answer waits for the peer, unless it delays other peers: if for
// replyPatience a queue of active messages has a message of another peer and none is taken
// from it, and the reply makes no progress, the reply is copied and done for the caller. If it
// cannot be copied the call ends with an error, and the reply goes on. The peer, which may be
// stopped, is not dropped; its messages are held back until the reply makes progress. No other
// wait ends by a clock.

// replyPatience is how long a call waits for a rendezvous answer that delays other peers.
const replyPatience = 500 * time.Millisecond

// waitsFor returns nil if the reply that a call is about to wait for can be copied, and
// otherwise records that the call waits.
func (f replyFamily) waitsFor(c *call, r *Request) *Request {
	if r.state&stateDone != 0 {
		return r
	}
	f.inFlight(r) // if it is not charged yet
	if r.letCallerGo() {
		return nil
	}
	if r.state&stateOwes != 0 && r.offersAnswer() {
		t := &c.w.replies
		if !c.w.multi {
			t.caller = c
		}
		r.state |= stateAwaited
		t.waits = append(t.waits, replyWait{r, r.come()})
		c.w.watchReplies()
	}
	return r
}

// letCallerGo copies a reply that a call would wait for, if it can, and reports whether it has:
// the reply is done for the caller. On an endpoint that was accepted, where replies are not
// charged, the messages of the peer are held back until it has read as much.
func (r *Request) letCallerGo() bool {
	if !r.is(kindEager) || r.form.acked || r.data.length > r.w.maxOwed {
		return false
	}
	paid := r.isReply()
	if !paid && (r.state&stateOwes == 0 || r.ep.held == 0) {
		return false
	}
	r.w.uctw.Push() // collected messages leave without progress
	if !r.ownData() {
		return false
	}
	if d := r.ep.bill.debt; !paid && !d.holding {
		d.hold(d.bytes - r.ackSize)
	}
	r.leaveCaller()
	return true
}

// leaveCaller detaches a reply from its caller; it is freed at its end.
func (r *Request) leaveCaller() {
	r.state |= stateParams | stateFreed
	r.onSend = endLetGo
}

// endLetGo is the end of a reply whose caller has gone on.
func endLetGo(r *Request, err error, _ any) {
	if err != nil {
		r.w.lose(r.ep, err)
	}
}

// offersAnswer reports whether the request offers the data of an active message to a peer
// that has asked for an answer.
func (r *Request) offersAnswer() bool {
	return (r.is(kindOffer) || r.is(kindWrite)) && r.form.active && r.ep.held > 0
}

// come measures the progress of a reply.
func (r *Request) come() int {
	n := r.offset + int(r.step)
	if r.is(kindWrite) {
		n += 1 + r.offer.sent
	}
	return n
}

// watchReplies schedules the next check of the replies.
func (w *Worker) watchReplies() {
	t := &w.replies
	if t.set || len(t.waits) == 0 || w.closed {
		return
	}
	for _, q := range w.am.queues {
		q.seen = q.taken
	}
	var err error
	if t.timer == nil {
		t.timer, err = w.uctw.Timers().After(replyPatience, w.lookAtReplies)
	} else {
		err = t.timer.Reset(replyPatience)
	}
	t.set = err == nil
}

// lookAtReplies ends the waits that delay other peers and whose replies make no progress.
func (w *Worker) lookAtReplies() {
	t := &w.replies
	t.set = false
	for k := len(t.waits) - 1; k >= 0 && k < len(t.waits); k-- { // look removes none but the one at k
		t.waits[k].look(w)
	}
	w.watchReplies()
}

func (a *replyWait) look(w *Worker) {
	r := a.r
	c := r.waiters
	if !w.multi {
		c = w.replies.caller
	}
	if c == nil || c.r != r || !r.isReply() && !r.ep.mayHoldUpOthers() {
		w.replies.remove(r) // no call waits, or it is not charged any more
		return
	}
	if n := r.come(); n != a.come {
		a.come = n
		return
	}
	d := r.ep.bill.debt
	was := d.holding
	d.holding = true
	if !w.othersAsk() {
		if !was {
			d.resume()
		}
		return
	}
	if !was {
		d.hold(d.bytes - 1)
	}
	w.replies.remove(r)
	if r.data.length <= w.maxOwed && r.ownData() {
		c.endEarly(nil)
		r.leaveCaller()
		return
	}
	c.endEarly(fmt.Errorf("ucp: a reply of %d bytes that its peer does not receive delays others: it goes on, and its buffer is in use until the endpoint is closed: %w: %w",
		r.data.length, ucs.InProgress, ucs.ErrExceedsLimit))
}

// othersAsk reports whether a queue has a message that is not held back, and none was taken
// from it since the last check.
func (w *Worker) othersAsk() bool {
	return slices.ContainsFunc(w.am.queues, func(q *AMQueue) bool { return q.taken == q.seen && q.front() != nil })
}

// endEarly ends the wait of a call for an operation that goes on.
func (c *call) endEarly(err error) {
	if !c.w.multi {
		c.early, c.earlyErr = true, err
		return
	}
	c.detach()
	c.r = nil
	c.w.engine.End(&c.Waiter, err)
}
