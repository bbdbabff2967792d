package ucp

import (
	"fmt"
	"slices"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
)

// Replies are the sends of the application over an endpoint that only the peer has opened,
// mostly answers to active messages. A peer that sends requests and does not read the answers
// must neither fill the memory nor stop a loop that answers one peer after the other. A reply
// in flight is charged, with its request and its data, to the connection that has opened the
// endpoint. Above a limit
//
//   - the connection is not read (debts.go), if the transport can stop one peer alone and no
//     message of the peer is needed to end the replies;
//   - messages of this peer stay in the queues of active messages, and those of other peers
//     overtake them (am_aside.go);
//   - at owedMultiple times the limit the connection is dropped, and the endpoint fails.
//
// A call that waits until a reply has left does not wait for a peer that does not read: the
// reply is copied (own_data.go). A reply that cannot be copied, because the peer itself reads
// or requests the data, is waited for, an answer only until it delays answers to other peers
// (reply_wait.go).
//
// Endpoints that the application has accepted for a listener are the application's own: its
// sends there are not charged, and the peer is neither dropped nor stopped. A call that waits
// there returns early only while the application holds a message of the peer's; the peer's
// other messages are then held back until the peer has read as much as was copied.
//
// Rendezvous offers, and other sends that a message of the peer ends, do not stop the reading
// of the peer's connection: the end would wait for itself.
//
// The cost is one check of the endpoint's bill for a send that is not done in its call.

// replyFamily accounts for replies. It sends nothing by itself.
type replyFamily struct{ noFamily }

func (replyFamily) about() familyInfo { return familyInfo{name: "replies"} }

func (f replyFamily) start(w *Worker) { w.replies.books = f }

// claimed and closed end the charging of replies over an endpoint.
func (replyFamily) claimed(ep *Endpoint) { ep.forgive() }
func (replyFamily) closed(ep *Endpoint)  { ep.forgive() }

// replyBooks is the interface to the accounts for the code of all kinds of requests.
type replyBooks interface {
	inFlight(r *Request)                   // r is in flight after its call
	over(r *Request)                       // r, which was charged or copied, has ended
	waitsFor(c *call, r *Request) *Request // c is about to wait for r; nil if it need not
}

var _ replyBooks = replyFamily{}

// replyState is what a worker keeps for replies.
type replyState struct {
	books  replyBooks
	waits  []replyWait // replies that calls wait for (reply_wait.go)
	caller *call       // the call that waits, unless the worker is in thread mode multi
	timer  *event.Timer
	set    bool // the timer is
}

// replyWait is a reply that a call waits for, and its progress at the last check.
type replyWait struct {
	r    *Request
	come int
}

// remove removes a reply that has ended, or that no call waits for any more.
func (t *replyState) remove(r *Request) {
	r.state &^= stateAwaited
	t.waits = slices.DeleteFunc(t.waits, func(o replyWait) bool { return o.r == r })
}

// replyDebt accounts for the replies of an endpoint that are in flight.
type replyDebt struct {
	ep       *Endpoint
	from     *source // the connection that is charged, nil if none is
	bytes    int     // of all replies
	asks     int     // of the replies that a message of the peer ends
	kept     int     // bytes of the peer's messages that are held back
	holding  bool    // the peer's messages are held back
	resumeAt int     // bytes of replies at which that ends
	err      error   // the peer is about to be dropped
}

// The most that a reply is charged for data in the application's memory: large replies take a
// while even toward peers that read.
const (
	mostOfOffer = 64 << 10
	mostOfReply = 1 << 20
)

// opened reports whether only the peer has opened the endpoint.
func (b *bill) opened() bool { return b != nil && b.openedBy != nil }

// isReply reports whether the request is charged to a connection.
func (r *Request) isReply() bool { return r.ep != nil && r.ep.bill.opened() }

// mayHoldUpOthers reports whether the application has accepted the endpoint for a listener, and has
// queues of active messages in which messages of other peers may wait.
func (ep *Endpoint) mayHoldUpOthers() bool {
	c := ep.conn()
	return c != nil && !c.client && len(ep.w.am.queues) > 0
}

// inFlight charges a request that is in flight after its call, if it is a reply.
func (replyFamily) inFlight(r *Request) {
	if !r.isReply() && !r.ep.mayHoldUpOthers() || r.op == nil && !r.is(kindEager) || r.state&(stateOwes|stateDone) != 0 {
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

// over ends the charge of a reply, and releases its copy.
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

// check enforces the limits after a charge.
func (d *replyDebt) check() {
	s, w := d.from, d.ep.w
	limit, most := w.maxOwed, w.mostOwed
	if s == nil {
		if d.bytes > limit && !d.holding && d.ep.mayHoldUpOthers() {
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

// hold holds back the messages of the peer until its replies are at most so many bytes.
func (d *replyDebt) hold(until int) {
	d.ep.w.stats.HeldBack++
	d.holding, d.resumeAt = true, until
}

// resume ends hold.
func (d *replyDebt) resume() {
	d.holding = false
	for _, f := range d.ep.w.families {
		f.peerReads(d.ep)
	}
}

// dropLater drops the peer in the next round of progress, because a call of the application
// may be under way, in which callbacks must not run.
func (d *replyDebt) dropLater(owed int) {
	if d.err != nil {
		return
	}
	d.err = fmt.Errorf("ucp: a peer does not read what is sent to it, %d bytes: %w", owed, ucs.ErrExceedsLimit)
	d.ep.w.copying.push(d.ep.control(dropDebtor{}))
}

// dropDebtor is a protocol that drops the peer of its endpoint and sends nothing.
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
