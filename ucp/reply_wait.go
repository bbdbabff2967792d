package ucp

import (
	"fmt"
	"slices"
	"time"

	"github.com/ucx-go/ucx/ucs"
)

// Some replies end with what the peer does: it reads the data of an offer, or asks for it.
// Calls that wait for such a reply wait as long as that takes, unless others are held up:
// if a queue of active messages has one of another peer, from which nobody takes any, and
// nothing becomes of the reply, all that for replyPatience, the reply is copied and done for the caller, or, if that cannot be,
// the call ends with an error, and the reply goes on. The peer, which may be stopped, stays
// as it is; its questions are held back until it takes something.

// replyPatience is how long a call waits for a reply that holds up others.
const replyPatience = 500 * time.Millisecond

// waitsFor has a call go on whose reply can be copied, or notes that it waits.
func (f replyFamily) waitsFor(c *call, r *Request) *Request {
	if r.state&stateDone != 0 {
		return r
	}
	if r.letCallerGo() {
		if c.w.multi { // or it is the call's, which frees it
			r.state |= stateFreed
		}
		return nil
	}
	f.inFlight(r) // if it is not charged yet
	if r.state&stateOwes != 0 {
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
	var err error
	if !r.copyReply() {
		err = fmt.Errorf("ucp: a reply of %d bytes holds up others, and its peer does not take it: %w", r.data.length, ucs.ErrExceedsLimit)
	}
	w.replies.remove(r)
	c.endEarly(err)
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
