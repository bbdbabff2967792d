package ucp

import (
	"fmt"
	"slices"
	"time"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// The limit on the answers and replies that a peer has not read. Answers are messages of the
// library (reply_queue.go), replies are sends of the application (below).

// addReplyBytes charges a source with n bytes of answers or replies that wait.
func (s *source) addReplyBytes(n int) {
	s.replyBytes += n
	s.w.accounts.queuedReplyBytes += n
	p := s.account()
	p.replyBytes += n
	if p.replyBytes > p.replyHigh {
		p.reserveReplies()
	}
}

// checkReplyBytes checks the limits of the source, after something was charged for answers over
// ep. At a limit the worker stops reading the source (checkReplyLimit).
func (s *source) checkReplyBytes(ep *Endpoint) {
	if s.replyBytes >= s.checkAt && (s.unpromptedBytes() > s.w.accounts.stopReplyBytes || s.unpromptedBytes() > minReplyBytes && s.w.replies.repliesOverLimit(s.account())) {
		s.checkReplyLimit(ep)
	}
}

// subReplyBytes reduces that charge by n bytes, and resumes reading the source if little enough
// is left.
func (s *source) subReplyBytes(n int) {
	s.replyBytes -= n
	s.w.accounts.queuedReplyBytes -= n
	p := s.account()
	p.replyBytes -= n
	if p.replyHigh-p.replyBytes > 4*replyStep {
		p.ledger.Add(ledger.Owed, int64(p.replyBytes+replyStep-p.replyHigh))
		p.replyHigh = p.replyBytes + replyStep
	}
	if s.paused && s.unpromptedBytes() <= s.resumeAt {
		s.resume()
	}
	if s.replyBytes < s.checkAt/2 {
		s.checkAt = 0
	}
	if s.ended {
		s.settle()
	}
}

// replyStep is the step in bytes in which an account is charged with answers and replies.
const replyStep = 64 << 10

func (p *account) reserveReplies() {
	p.ledger.Add(ledger.Owed, int64(p.replyBytes+replyStep-p.replyHigh))
	p.replyHigh = p.replyBytes + replyStep
}

// repliesOverLimit reports whether the account, or the process, is charged with so much for
// answers and replies that the lower limits of a connection apply: more than a sixteenth of
// maxHeld for the account, or more than an eighth for the process.
func (rs *replyState) repliesOverLimit(p *account) bool {
	w := rs.w
	most := int64(w.accounts.maxHeld / 4)
	return ledger.Total(ledger.Owed) > most/2 || p.ledger.Of(ledger.Owed) > most/4
}

// checkReplyLimit stops the reading of a source, unless the worker waits for something from the
// peer. It drops a source that is not stopped and is above the higher limit.
//
//go:noinline
func (s *source) checkReplyLimit(ep *Endpoint) {
	w := s.w
	if s.uct == nil {
		return
	}
	most := w.accounts.maxReplyBytes
	if w.replies.repliesOverLimit(s.account()) {
		most = min(most, replyMultiple*minReplyBytes)
	}
	if s.stopFor(ep) {
		return
	}
	s.checkAt = s.replyBytes + most/32
	if s.replyBytes > most && !s.paused {
		w.replies.dropSlowPeer(s, ep, fmt.Errorf("ucp: a peer does not read its replies, %d bytes: %w", s.replyBytes, ucs.ErrExceedsLimit))
	}
}

// resume ends the pause of a source.
func (s *source) resume() {
	s.paused = false
	s.readOn()
}

// dropSlowPeer drops a connection that does not read. The endpoint over which it is answered may
// use another connection; the endpoint fails as well if it leads to a peer of the same account.
func (rs *replyState) dropSlowPeer(s *source, ep *Endpoint, err error) {
	w := rs.w
	w.accounts.logRefusal(s.account().ledger, ledger.Answers, err)
	payer := s.account()
	s.uct.Drop(err)
	if b := ep.charge; b != nil && (b.openedBy != nil && b.openedBy.account() == payer || b.boundTo == payer.ledger) {
		ep.fail(err)
	}
}

// awaits reports whether the worker waits for something from the endpoint's peer, by this or
// another endpoint of the peer.
func (rs *replyState) awaits(ep *Endpoint) bool {
	waits := ep.waitsForPeer()
	if !waits && ep.peer != nil {
		waits = slices.ContainsFunc(ep.peer.endpoints, (*Endpoint).waitsForPeer)
	}
	return waits
}

// waitsForPeer reports whether something of the endpoint waits for a message of the peer. Where
// both sides have requested the other's endpoint id only one request is answered: an endpoint
// that has the id does not wait.
func (ep *Endpoint) waitsForPeer() bool {
	return ep.state&epRequested != 0 && (ep.remoteID == 0 || ep.state&epUnconfirmed != 0) || ep.w.ends.unanswered(ep)
}

// stopFor stops the reading of a source because of unread answers or replies over ep, and reports
// whether it has. It does nothing if the transport cannot pause the source, if the source is
// paused already, or if the worker waits for something from the peer.
func (s *source) stopFor(ep *Endpoint) bool {
	p, ok := s.uct.Owner.(uct.SourcePauser)
	if !ok || s.paused || ep.w.replies.awaits(ep) {
		return false
	}
	s.paused, s.resumeAt = true, s.unpromptedBytes()/2
	s.w.stats.Paused++
	p.PauseSource()
	return true
}

// unpromptedBytes returns the bytes of answers and replies that the peer only has to read.
func (s *source) unpromptedBytes() int { return s.replyBytes - s.askBytes }

// Replies are the sends of the application over an endpoint that only the peer has opened,
// mostly responses to active messages. A peer that sends requests and does not read the replies
// must neither fill the memory nor stop a loop that replies to one peer after the other. A reply
// in flight is charged, with its request and its data, to the connection that has opened the
// endpoint. Above a limit
//
//   - the worker does not read the connection (stopFor), if the transport can stop one peer alone
//     and no message of the peer is needed to end the replies;
//   - messages of this peer stay in the queues of active messages, and those of other peers
//     overtake them (am_queue.go);
//   - at replyMultiple times the limit the connection is dropped, and the endpoint fails.
//
// A call that waits until a reply has left does not wait for a peer that does not read: the reply
// is copied (request_pool.go). A call waits for a reply that cannot be copied because the peer
// itself reads or requests the data. If that reply responds to an active message, the wait ends
// when it delays replies to other peers (replyPatience).
//
// Endpoints that the application has accepted for a listener are the application's own: its
// sends there are not charged, and the peer is neither dropped nor stopped. A call that waits
// there returns early only while the application holds a message of the peer's; the peer's
// other messages are then held back until the peer has read as much as was copied.
//
// Rendezvous offers, and other sends that a message of the peer ends, do not stop the reading of
// the peer's connection: they would wait for a message that is not read.
//
// The cost is one check of Endpoint.charge for each send that is not done in its call.

// replyFamily accounts for replies. It sends nothing by itself.
type replyFamily struct{ noFamily }

func (replyFamily) about() familyInfo { return familyInfo{name: "replies"} }

func (f replyFamily) start(w *Worker) { w.replies.accounting = f }

// claimed and closed end the charging of replies over an endpoint (forgiveReplies).
func (replyFamily) claimed(ep *Endpoint) { ep.w.replies.forgiveReplies(ep) }
func (replyFamily) closed(ep *Endpoint)  { ep.w.replies.forgiveReplies(ep) }

// replyAccounting is the interface through which the code of all kinds of requests reports
// replies.
type replyAccounting interface {
	inFlight(r *Request)                   // r is in flight after its call
	over(r *Request)                       // r, which was charged or copied, has ended
	waitsFor(c *call, r *Request) *Request // c is about to wait for r; nil if c need not wait
}

var _ replyAccounting = replyFamily{}

// replyState is the state of a worker that belongs to replies.
type replyState struct {
	accounting replyAccounting
	waits      []replyWait // replies that calls wait for
	caller     *call       // the call that waits, unless the worker is in thread mode multi
	timer      *event.Timer
	set        bool // the timer is set
	w          *Worker
}

// replyWait is a reply that a call waits for, and the progress of the reply at the last check.
type replyWait struct {
	r    *Request
	mark int
}

// remove removes a reply that has ended, or that no call waits for any more.
func (t *replyState) remove(r *Request) {
	r.state &^= stateAwaited
	t.waits = slices.DeleteFunc(t.waits, func(o replyWait) bool { return o.r == r })
}

// replyCharge accounts for the replies of an endpoint that are in flight.
type replyCharge struct {
	ep       *Endpoint
	from     *source // the connection that is charged, nil if none is
	bytes    int     // of all replies
	askBytes int     // of the replies that a message of the peer ends
	kept     int     // bytes of the peer's messages that are held back
	holding  bool    // the peer's messages are held back
	resumeAt int     // bytes of replies at which holding ends
	err      error   // the peer is about to be dropped
}

// The maximum that a reply is charged for data in the application's memory, in bytes, for a reply
// that a message of the peer ends and for others. Large replies take a while even toward peers
// that read.
const (
	maxOfOffer = 64 << 10
	maxOfReply = 1 << 20
)

// opened reports whether the peer has opened the endpoint and the application has not claimed it.
func (b *endpointCharge) opened() bool { return b != nil && b.openedBy != nil }

// isReply reports whether the request is charged to a connection.
func (r *Request) isReply() bool { return r.ep != nil && r.ep.charge.opened() }

// mayHoldUpOthers reports whether the application has accepted the endpoint for a listener, and has
// queues of active messages in which messages of other peers may wait.
func (rs *replyState) mayHoldUpOthers(ep *Endpoint) bool {
	c := ep.conn()
	return c != nil && !c.client && len(ep.w.am.queues) > 0
}

// inFlight charges a request that is in flight after its call, if it is a reply, or a send over
// an accepted endpoint (mayHoldUpOthers).
func (replyFamily) inFlight(r *Request) {
	if !r.isReply() && !r.ep.w.replies.mayHoldUpOthers(r.ep) || r.op == nil && !r.is(kindEager) || r.state&(stateCharged|stateDone) != 0 {
		return
	}
	b := r.ep.w.accounts.ensureCharge(r.ep)
	d := b.replies
	if d == nil {
		d = &replyCharge{ep: r.ep}
		b.replies = d
	}
	d.from = b.openedBy
	n, asks := min(r.data.length, maxOfReply), false
	if !r.is(kindEager) || r.form.acked {
		n, asks = min(n, maxOfOffer), true
		r.state |= stateExpectsMessage
	}
	if r.am != nil {
		n += len(r.am.header)
	}
	r.state |= stateCharged
	r.ackSize = 0
	d.charge(r, requestSize+n, asks)
	d.check()
}

// charge charges n more bytes for a reply. asks says that a message of the peer ends the reply.
func (d *replyCharge) charge(r *Request, n int, asks bool) {
	r.ackSize += n
	d.bytes += n
	if asks {
		d.askBytes += n
	}
	if d.from != nil {
		if asks {
			d.from.askBytes += n
		}
		d.from.addReplyBytes(n)
	}
}

// over ends the charge of a reply, and releases its copy.
func (replyFamily) over(r *Request) {
	if r.state&stateCopied != 0 {
		r.w.buffers.Put(r.data.buf)
		r.data.buf = nil
	}
	if r.state&stateCharged != 0 {
		d, n := r.ep.charge.replies, r.ackSize
		asks := r.state&stateExpectsMessage != 0
		d.bytes -= n
		if asks {
			d.askBytes -= n
		}
		if from := d.from; from != nil {
			if asks {
				from.askBytes -= n
			}
			from.subReplyBytes(n)
		}
		if d.holding && d.bytes <= d.resumeAt {
			d.resume()
		}
	}
	if r.state&stateAwaited != 0 {
		r.w.replies.remove(r)
	}
	r.state &^= stateCharged | stateExpectsMessage | stateCopied
}

// forgiveReplies ends the charging of replies: the application has claimed the endpoint, or the
// endpoint is closed.
func (rs *replyState) forgiveReplies(ep *Endpoint) {
	if ep.charge == nil || ep.charge.replies == nil || ep.charge.replies.from == nil {
		return
	}
	d := ep.charge.replies
	from, n := d.from, d.bytes
	from.askBytes -= d.askBytes
	d.from = nil
	from.subReplyBytes(n)
	if d.holding {
		d.resume()
	}
}

// check enforces the limits after a charge.
func (d *replyCharge) check() {
	s, w := d.from, d.ep.w
	limit, most := w.accounts.stopReplyBytes, w.accounts.maxReplyBytes
	if s == nil {
		if d.bytes > limit && !d.holding && d.ep.w.replies.mayHoldUpOthers(d.ep) {
			d.hold(d.bytes / 2)
		}
		return
	}
	if s.replyBytes > minReplyBytes && w.replies.repliesOverLimit(s.account()) {
		limit, most = min(limit, minReplyBytes), min(most, replyMultiple*minReplyBytes)
	}
	if d.bytes > limit && !d.holding {
		d.hold(d.bytes / 2)
	}
	if s.uct == nil {
		if d.bytes > most || d.bytes+d.kept > w.accounts.maxReplyBytes {
			d.dropLater(d.bytes + d.kept)
		}
		return
	}
	if s.unpromptedBytes() > limit && !s.paused {
		s.stopFor(d.ep)
	}
	if s.replyBytes > w.accounts.maxReplyBytes || s.replyBytes > most && !s.paused {
		d.dropLater(s.replyBytes)
	}
}

// hold holds back the messages of the peer until the replies to the peer are at most until bytes.
func (d *replyCharge) hold(until int) {
	d.ep.w.stats.HeldBack++
	d.holding, d.resumeAt = true, until
}

// resume ends what hold began: the messages of the peer are delivered again.
func (d *replyCharge) resume() {
	d.holding = false
	for _, f := range d.ep.w.families {
		f.peerReads(d.ep)
	}
}

// dropLater drops the peer in the next round of progress. A call of the application may be
// running, and callbacks must not run inside the call.
func (d *replyCharge) dropLater(owed int) {
	if d.err != nil {
		return
	}
	d.err = fmt.Errorf("ucp: a peer does not read what is sent to it, %d bytes: %w", owed, ucs.ErrExceedsLimit)
	d.ep.w.copying.push(d.ep.control(dropSlowPeer{}))
}

// dropSlowPeer is a protocol that drops the peer of its endpoint and sends nothing.
type dropSlowPeer struct{ basics }

func (dropSlowPeer) about() protocolInfo { return protocolInfo{kind: kindControl} }

func (dropSlowPeer) progress(r *Request) error {
	ep, d := r.ep, r.ep.charge.replies
	r.finish(nil)
	s, w := d.from, ep.w
	if s == nil { // the application has claimed the endpoint
		d.err = nil
		return nil
	}
	for _, f := range w.families {
		f.peerDropped(ep)
	}
	if s.uct != nil {
		w.replies.dropSlowPeer(s, ep, d.err)
		return nil
	}
	w.accounts.logRefusal(s.account().ledger, ledger.Answers, d.err)
	ep.fail(d.err)
	return nil
}

// A call that waits until a reply has left does not wait for a peer that does not read: data that
// the transport has not accepted is copied (request_pool.go). If the send of the copy fails, the
// next flush returns the error, as for short sends that are delegated to another goroutine
// (call.go).
//
// The data of an active message sent by rendezvous leaves when the peer reads or requests the
// data. A call that sends such a reply waits for the peer, unless the reply delays other peers:
// for replyPatience a queue of active messages has a message of another peer and no message is
// taken from the queue, and the reply makes no progress. Then the reply is copied and is done for
// the caller. If it cannot be copied the call ends with an error, and the reply stays in flight.
// The peer, which may be stopped, is not dropped; its messages are held back until the reply
// makes progress. No other wait ends by a clock.

// replyPatience is how long a call waits for a rendezvous reply that delays other peers.
const replyPatience = 500 * time.Millisecond

// waitsFor returns nil if the reply that a call is about to wait for was copied, so that the call
// need not wait. Otherwise it returns r, and records the wait if r is a reply sent by
// rendezvous (offersAnswer).
func (f replyFamily) waitsFor(c *call, r *Request) *Request {
	if r.state&stateDone != 0 {
		return r
	}
	f.inFlight(r) // if it is not charged yet
	if r.w.replies.releaseCaller(r) {
		return nil
	}
	if r.state&stateCharged != 0 && r.w.replies.offersAnswer(r) {
		t := &c.w.replies
		if !c.w.owner.multi {
			t.caller = c
		}
		r.state |= stateAwaited
		t.waits = append(t.waits, replyWait{r, r.w.replies.progressMark(r)})
		c.w.replies.watchReplies()
	}
	return r
}

// releaseCaller copies a reply that a call would wait for, and reports whether it has: the reply
// is then done for the caller. On an endpoint that was accepted, where replies are not charged to
// a source, the messages of the peer are held back until the peer has read as much as was copied.
func (rs *replyState) releaseCaller(r *Request) bool {
	if !r.is(kindEager) || r.form.acked || r.data.length > r.w.accounts.stopReplyBytes {
		return false
	}
	paid := r.isReply()
	if !paid && (r.state&stateCharged == 0 || r.ep.held == 0) {
		return false
	}
	r.w.uctw.Push() // collected messages leave without progress
	if !r.w.pool.ownData(r) {
		return false
	}
	if d := r.ep.charge.replies; !paid && !d.holding {
		d.hold(d.bytes - r.ackSize)
	}
	rs.detachCaller(r)
	return true
}

// detachCaller detaches a reply from its caller; the reply is freed when it ends.
func (rs *replyState) detachCaller(r *Request) {
	r.state |= stateParams | stateFreed
	r.onSend = endReleased
}

// endReleased is the callback of a reply that was detached from its caller. It keeps an error for
// the next flush.
func endReleased(r *Request, err error, _ any) {
	if err != nil {
		r.w.keepError(r.ep, err)
	}
}

// offersAnswer reports whether the request offers the data of an active message by rendezvous
// while the application holds an active message that came over the endpoint.
func (rs *replyState) offersAnswer(r *Request) bool {
	return (r.is(kindOffer) || r.is(kindWrite)) && r.form.active && r.ep.held > 0
}

// progressMark returns a number that changes with the progress of a reply.
func (rs *replyState) progressMark(r *Request) int {
	n := r.offset + int(r.step)
	if r.is(kindWrite) {
		n += 1 + r.offer.sent
	}
	return n
}

// watchReplies schedules the next check of the replies that calls wait for, in replyPatience.
func (rs *replyState) watchReplies() {
	w := rs.w
	t := rs
	if t.set || len(t.waits) == 0 || w.closed {
		return
	}
	for _, q := range w.am.queues {
		q.seen = q.taken
	}
	var err error
	if t.timer == nil {
		t.timer, err = w.uctw.Timers().After(replyPatience, rs.checkReplies)
	} else {
		err = t.timer.Reset(replyPatience)
	}
	t.set = err == nil
}

// checkReplies ends the waits that delay other peers and whose replies make no progress.
func (rs *replyState) checkReplies() {
	w := rs.w
	t := rs
	t.set = false
	for k := len(t.waits) - 1; k >= 0 && k < len(t.waits); k-- { // look removes none but the one at k
		t.waits[k].look(w)
	}
	rs.watchReplies()
}

func (a *replyWait) look(w *Worker) {
	r := a.r
	c := r.waiters
	if !w.owner.multi {
		c = w.replies.caller
	}
	if c == nil || c.r != r || !r.isReply() && !r.ep.w.replies.mayHoldUpOthers(r.ep) {
		w.replies.remove(r) // no call waits, or it is not charged any more
		return
	}
	if n := r.w.replies.progressMark(r); n != a.mark {
		a.mark = n
		return
	}
	d := r.ep.charge.replies
	was := d.holding
	d.holding = true
	if !w.replies.othersAsk() {
		if !was {
			d.resume()
		}
		return
	}
	if !was {
		d.hold(d.bytes - 1)
	}
	w.replies.remove(r)
	if r.data.length <= w.accounts.stopReplyBytes && r.w.pool.ownData(r) {
		c.endEarly(nil)
		r.w.replies.detachCaller(r)
		return
	}
	c.endEarly(fmt.Errorf("ucp: a reply of %d bytes that its peer does not receive delays others: it goes on, and its buffer is in use until the endpoint is closed: %w: %w",
		r.data.length, ucs.InProgress, ucs.ErrExceedsLimit))
}

// othersAsk reports whether a queue has a message that is not held back, and none was taken
// from it since the last check.
func (rs *replyState) othersAsk() bool {
	w := rs.w
	return slices.ContainsFunc(w.am.queues, func(q *AMQueue) bool { return q.taken == q.seen && q.front() != nil })
}

// endEarly ends the wait of a call for an operation that stays in flight.
func (c *call) endEarly(err error) {
	if !c.w.owner.multi {
		c.early, c.earlyErr = true, err
		return
	}
	c.detach()
	c.r = nil
	c.w.owner.engine.End(&c.Waiter, err)
}
