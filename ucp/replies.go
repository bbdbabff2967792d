package ucp

import (
	"fmt"
	"slices"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
)

// Replies are what the application sends over an endpoint that only the peer has opened:
// answers to active messages, mostly. A peer that asks and does not read what it is
// answered must neither fill the memory nor stop a loop that answers one peer after the
// other. While a reply is in flight it is charged to the connection that has opened the
// endpoint, with its request and its data. From some amount on
//
//   - that connection is not read (debts.go), if the transport can stop one peer alone and
//     nothing is expected from there;
//   - the questions that queues of active messages have of this peer stay there, and those
//     of others go before them (am_aside.go);
//   - at owedMultiple times that the connection is dropped, and the endpoint fails.
//
// A call that waits until a reply has left does not wait for a peer that does not read:
// the reply is copied (own_data.go). Where that cannot be, as the peer itself is to read
// or ask for the data, the call waits, an answer until it holds up others (reply_wait.go).
//
// Endpoints that the application has accepted for a listener are its own: nobody is charged,
// dropped or not read for what it sends there. A call that waits there is let go only while
// the application has a question of the peer's, and the others of this peer are held back
// until as much as the copy has left.
//
// Offers and whatever else ends with a message of the peer's do not stop the reading of its
// connection, which would wait for itself.
//
// All that costs a look for an endpoint's bill where a send is not done in its call.

// replyFamily is the accounts of replies. It sends nothing by itself.
type replyFamily struct{ noFamily }

func (replyFamily) about() familyInfo { return familyInfo{name: "replies"} }

func (f replyFamily) start(w *Worker) { w.replies.books = f }

// claimed and closed end the charging of what was sent over an endpoint.
func (replyFamily) claimed(ep *Endpoint) { ep.forgive() }
func (replyFamily) closed(ep *Endpoint)  { ep.forgive() }

// replyBooks are the accounts as those see them who have to do with requests of all kinds.
type replyBooks interface {
	inFlight(r *Request)                   // behind its call
	over(r *Request)                       // one that was charged, or copied
	waitsFor(c *call, r *Request) *Request // c would wait for r; nil if it need not
}

var _ replyBooks = replyFamily{}

// replyState is what a worker keeps for replies.
type replyState struct {
	books  replyBooks
	waits  []replyWait // that calls wait for (reply_wait.go)
	caller *call       // that waits, unless the worker is in thread mode multi
	timer  *event.Timer
	set    bool // the timer is
}

// replyWait is a reply that a call waits for, and what had become of it when it was looked
// at.
type replyWait struct {
	r    *Request
	come int
}

// remove takes a reply off the list: it is over, or nobody waits.
func (t *replyState) remove(r *Request) {
	r.state &^= stateAwaited
	t.waits = slices.DeleteFunc(t.waits, func(o replyWait) bool { return o.r == r })
}

// replyDebt is what an endpoint keeps of its replies in flight.
type replyDebt struct {
	ep       *Endpoint
	from     *source // who pays, nil if nobody does, or does any more
	bytes    int     // of all replies
	asks     int     // of those that end with a message of the peer's
	kept     int     // bytes of questions that are held back
	holding  bool    // they are
	resumeAt int     // until the replies are no more than that
	err      error   // the peer is about to be dropped
}

// What a reply is charged with of data that is in the application's memory, at most: large
// ones take their time with peers that read.
const (
	mostOfOffer = 64 << 10
	mostOfReply = 1 << 20
)

// opened reports whether only the peer has opened the endpoint.
func (b *bill) opened() bool { return b != nil && b.openedBy != nil }

// isReply reports whether the request is one that somebody pays for.
func (r *Request) isReply() bool { return r.ep != nil && r.ep.bill.opened() }

// accepted reports whether the application has accepted the endpoint for a listener, and
// has queues of active messages that others may wait in.
func (ep *Endpoint) accepted() bool {
	c := ep.conn()
	return c != nil && !c.client && len(ep.w.am.queues) > 0
}

// inFlight charges a request that is in flight behind its call, if it is a reply.
func (replyFamily) inFlight(r *Request) {
	if !r.isReply() && !r.ep.accepted() || r.op == nil && !r.is(kindEager) || r.state&(stateOwes|stateDone) != 0 {
		return
	}
	b := r.ep.billing()
	d := b.debt
	if d == nil {
		d = &replyDebt{ep: r.ep}
		b.debt = d
	}
	d.from = b.openedBy
	n, asks := min(r.data.length, mostOfReply), false
	if !r.is(kindEager) || r.form.acked {
		n, asks = min(n, mostOfOffer), true
		r.state |= stateAsks
	}
	if r.am != nil {
		n += len(r.am.header)
	}
	r.state |= stateOwes
	r.ackSize = 0
	d.charge(r, requestSize+n, asks)
	d.check()
}

// charge charges n bytes more for a reply.
func (d *replyDebt) charge(r *Request, n int, asks bool) {
	r.ackSize += n
	d.bytes += n
	if asks {
		d.asks += n
	}
	if d.from != nil {
		if asks {
			d.from.asks += n
		}
		d.from.addOwed(n)
	}
}

// over takes a reply off again, and gives back its copy.
func (replyFamily) over(r *Request) {
	if r.state&stateCopied != 0 {
		r.w.buffers.Put(r.data.buf)
		r.data.buf = nil
	}
	if r.state&stateOwes != 0 {
		d, n := r.ep.bill.debt, r.ackSize
		asks := r.state&stateAsks != 0
		d.bytes -= n
		if asks {
			d.asks -= n
		}
		if from := d.from; from != nil {
			if asks {
				from.asks -= n
			}
			from.repay(n)
		}
		if d.holding && d.bytes <= d.resumeAt {
			d.resume()
		}
	}
	if r.state&stateAwaited != 0 {
		r.w.replies.remove(r)
	}
	r.state &^= stateOwes | stateAsks | stateCopied
}

// forgive ends the charging of replies: the endpoint is the application's now, or gone.
func (ep *Endpoint) forgive() {
	if ep.bill == nil || ep.bill.debt == nil || ep.bill.debt.from == nil {
		return
	}
	d := ep.bill.debt
	from, n := d.from, d.bytes
	from.asks -= d.asks
	d.from = nil
	from.repay(n)
	if d.holding {
		d.resume()
	}
}

// check looks whether the replies are too many, after some were charged.
func (d *replyDebt) check() {
	s, w := d.from, d.ep.w
	limit, most := w.maxOwed, w.mostOwed
	if s == nil {
		if d.bytes > limit && !d.holding && d.ep.accepted() {
			d.hold(d.bytes / 2)
		}
		return
	}
	if s.owed > leastOwed && w.owedMuch(s.pays()) {
		limit, most = min(limit, leastOwed), min(most, owedMultiple*leastOwed)
	}
	if d.bytes > limit && !d.holding {
		d.hold(d.bytes / 2)
	}
	if s.uct == nil {
		if d.bytes > most || d.bytes+d.kept > w.mostOwed {
			d.dropLater(d.bytes + d.kept)
		}
		return
	}
	if s.due() > limit && !s.paused {
		s.stopFor(d.ep)
	}
	if s.owed > w.mostOwed || s.owed > most && !s.paused {
		d.dropLater(s.owed)
	}
}

// hold holds back the questions of the peer until its replies are at most so many bytes.
func (d *replyDebt) hold(until int) {
	d.ep.w.stats.HeldBack++
	d.holding, d.resumeAt = true, until
}

// resume ends that.
func (d *replyDebt) resume() {
	d.holding = false
	for _, f := range d.ep.w.families {
		f.peerReads(d.ep)
	}
}

// dropLater drops the peer in the next round of progress: now a call of the application may
// be under way, in which its callbacks must not run.
func (d *replyDebt) dropLater(owed int) {
	if d.err != nil {
		return
	}
	d.err = fmt.Errorf("ucp: a peer does not read what it is sent, %d bytes: %w", owed, ucs.ErrExceedsLimit)
	d.ep.w.copying.push(d.ep.control(dropDebtor{}))
}

// dropDebtor drops the peer of its endpoint, and sends nothing.
type dropDebtor struct{ basics }

func (dropDebtor) about() protocolInfo { return protocolInfo{kind: kindControl} }

func (dropDebtor) progress(r *Request) error {
	ep, d := r.ep, r.ep.bill.debt
	r.finish(nil)
	s, w := d.from, ep.w
	if s == nil { // it has been claimed
		d.err = nil
		return nil
	}
	for _, f := range w.families {
		f.peerDropped(ep)
	}
	if s.uct != nil {
		w.dropDebtor(s, ep, d.err)
		return nil
	}
	w.logRefusal(s.pays().account, ledger.Answers, d.err)
	ep.fail(d.err)
	return nil
}
