package ucp

import (
	"fmt"
	"slices"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// A call that waits until a reply has left need not wait for a peer that does not read: what
// the transport has not taken is copied (own_data.go), and as with short sends that are left
// to another goroutine (call.go) the next flush tells of a failure.
//
// The data of an active message that is offered leaves when the peer reads it or asks for it.
// A call that answers a question so waits as long as that takes, unless others are held up:
// if a queue of active messages has one of another peer, from which nobody takes any, and
// nothing becomes of the reply, all that for replyPatience, the reply is copied and done for
// the caller, or, if that cannot be, the call ends with an error, and the reply goes on. The
// peer, which may be stopped, stays as it is; its questions are held back until it takes
// something. Nothing else has an end by a clock.

// replyPatience is how long a call waits for an offered answer that holds up others.
const replyPatience = 500 * time.Millisecond

// waitsFor has a call go on whose reply can be copied, or notes that it waits.
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

// letCallerGo takes a reply that a call would wait for out of the caller's hands, if that
// can be: as the caller sees it, it is done. For an endpoint that was accepted nobody pays:
// the questions of its peer are held back until it has read as much.
func (r *Request) letCallerGo() bool {
	if !r.is(kindEager) || r.form.acked || r.data.length > r.w.maxOwed {
		return false
	}
	paid := r.isReply()
	if !paid && (r.state&stateOwes == 0 || r.ep.held == 0) {
		return false
	}
	r.w.uctw.Push() // what was collected leaves although nobody progresses
	if !r.ownData() {
		return false
	}
	if d := r.ep.bill.debt; !paid && !d.holding {
		d.hold(d.bytes - r.ackSize)
	}
	r.leaveCaller()
	return true
}

// leaveCaller makes a reply its own, which nobody waits for.
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

// come is how much has become of a reply.
func (r *Request) come() int {
	n := r.offset + int(r.step)
	if r.is(kindWrite) {
		n += 1 + r.offer.sent
	}
	return n
}

// watchReplies has the replies looked at after a while.
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

// lookAtReplies ends the waits that hold up others and of whose replies nothing has become.
func (w *Worker) lookAtReplies() {
	t := &w.replies
	t.set = false
	for k := len(t.waits) - 1; k >= 0 && k < len(t.waits); k-- { // none but the one at k goes
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
	if c == nil || c.r != r || !r.isReply() && !r.ep.accepted() {
		w.replies.remove(r) // nobody waits, or it is no reply any more
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
	c.endEarly(fmt.Errorf("ucp: an answer of %d bytes, which its peer does not take, holds up others: it goes on, and reads its buffer as long as the endpoint is there: %w: %w",
		r.data.length, ucs.InProgress, ucs.ErrExceedsLimit))
}

// othersAsk reports whether a queue has a message that is not held back, and nobody has
// taken one since the last look.
func (w *Worker) othersAsk() bool {
	return slices.ContainsFunc(w.am.queues, func(q *AMQueue) bool { return q.taken == q.seen && q.front() != nil })
}

// endEarly ends the waiting of a call for something that goes on.
func (c *call) endEarly(err error) {
	if !c.w.multi {
		c.early, c.earlyErr = true, err
		return
	}
	c.detach()
	c.r = nil
	c.w.engine.End(&c.Waiter, err)
}
