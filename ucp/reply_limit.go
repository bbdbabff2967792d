package ucp

import (
	"fmt"
	"slices"
	"time"

	"github.com/ucx-go/ucx/internal/ledger"
	"github.com/ucx-go/ucx/ucp/internal/connect"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/ucs/event"
	"github.com/ucx-go/ucx/uct"
)

// The limit on the answers and replies that a peer has not read. Answers are messages of the
// library (reply_queue.go), replies are sends of the application (below).

// checkReplyBytes checks the limits of the source, after something was charged for answers over
// ep. At a limit the worker stops reading the source, unless the worker waits for something from
// the peer (stopFor). A source that is not stopped and is above the higher limit is dropped.
func (s *source) checkReplyBytes(ep *Endpoint) {
	if s.MustStop() && s.uct != nil && !s.stopFor(ep) && s.OverLimit() {
		s.w.replies.dropSlowPeer(s, ep, fmt.Errorf("ucp: a peer does not read its replies, of which %d bytes are queued: %w", s.ReplyBytes(), ucs.ErrExceedsLimit))
	}
}

// dropSlowPeer drops the connection s, because its peer does not read. The endpoint ep, over which
// the peer gets its replies, may use another connection. It fails as well if it leads to a peer of
// the same account.
func (rs *replyState) dropSlowPeer(s *source, ep *Endpoint, err error) {
	w := rs.w
	w.accounts.LogRefusal(s.Account().Ledger(), ledger.Answers, err)
	account := s.Account()
	s.uct.Drop(err)
	if b := ep.charge; b != nil && (b.openedBy != nil && b.openedBy.Account() == account || b.boundTo == account.Ledger()) {
		ep.fail(err)
	}
}

// awaits reports whether the worker waits for something from the endpoint's peer, by this or
// another endpoint of the peer.
func (rs *replyState) awaits(ep *Endpoint) bool {
	waits := ep.waitsForPeer()
	if !waits && ep.peer != nil {
		waits = anyEndpoint(ep.peer, (*Endpoint).waitsForPeer)
	}
	return waits
}

// waitsForPeer reports whether something of the endpoint waits for a message of the peer. Where
// both sides have requested the other's endpoint id only one request is answered: an endpoint
// that has the id does not wait.
func (ep *Endpoint) waitsForPeer() bool {
	return ep.handshake.Unanswered() && (ep.remoteID == 0 || ep.state&epUnconfirmed != 0) || ep.w.ends.unanswered(ep)
}

// stopFor stops the reading of a source because of unread answers or replies over ep, and reports
// whether it has. It does nothing if the transport cannot pause the source, if the source is
// paused already, or if the worker waits for something from the peer.
func (s *source) stopFor(ep *Endpoint) bool {
	p, ok := s.uct.Owner.(uct.Connection)
	if !ok || s.Paused() || ep.w.replies.awaits(ep) {
		return false
	}
	s.SetPaused()
	s.w.stats.Paused++
	p.PauseSource()
	return true
}

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
//   - at account.DropMultiple times the limit the connection is dropped, and the endpoint fails.
//
// A call that waits until a reply has left does not wait for a peer that does not read: the reply
// is copied (request_pool.go). A call waits for a reply that cannot be copied because the peer
// itself reads or requests the data. If that reply responds to an active message, the wait ends
// when it delays replies to other peers (replyWaitLimit).
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
	inFlight(r *Request)                   // called when r is in flight after its call
	over(r *Request)                       // called when r has ended, if it was charged or copied
	waitsFor(c *call, r *Request) *Request // called before c waits for r; nil if c need not wait
}

var _ replyAccounting = replyFamily{}

// replyState is a worker's state for replies.
type replyState struct {
	accounting replyAccounting
	waits      []replyWait // replies that calls wait for
	timer      *event.Timer
	set        bool // the timer is set
	w          *Worker
}

// replyWait is a reply that a call waits for, and the progress of the reply at the last check.
type replyWait struct {
	r    *Request
	mark int
}

// remove removes from waits a reply that has ended, or that no call waits for any more.
func (t *replyState) remove(r *Request) {
	r.state &^= stateAwaited
	t.waits = slices.DeleteFunc(t.waits, func(o replyWait) bool { return o.r == r })
}

// replyCharge accounts for the replies of an endpoint that are in flight.
type replyCharge struct {
	ep       *Endpoint
	from     *source // the connection that is charged, nil if none is
	bytes    int     // bytes of all replies
	askBytes int     // bytes of the replies that a message of the peer ends
	kept     int     // bytes of the peer's messages that are held back
	holding  bool    // the peer's messages are held back
	resumeAt int     // the peer's messages are delivered again when bytes is at most this
	err      error   // the reason why the peer is about to be dropped, nil if it is not
}

// Maximum charge, in bytes, of a reply for data in the application's memory: maxOfOffer for a reply
// that a message of the peer ends, maxOfReply for other replies. Large replies take a while even
// toward peers that read.
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
	return ep.handshake.Role == connect.Server && len(ep.w.am.queues) > 0
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
	n, asks := min(r.data.Length, maxOfReply), false
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

// charge charges n more bytes for a reply. asks is true if a message of the peer ends the reply.
func (d *replyCharge) charge(r *Request, n int, asks bool) {
	r.ackSize += n
	d.bytes += n
	if asks {
		d.askBytes += n
	}
	if d.from != nil {
		if asks {
			d.from.AwaitingPeerBytes += n
		}
		d.from.AddReplies(n)
	}
}

// over ends the charge of a reply, and releases its copy.
func (replyFamily) over(r *Request) {
	if r.state&stateCopied != 0 {
		r.w.buffers.Put(r.data.Buf)
		r.data.Buf = nil
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
				from.AwaitingPeerBytes -= n
			}
			from.SubReplies(n)
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
	from.AwaitingPeerBytes -= d.askBytes
	d.from = nil
	from.SubReplies(n)
	if d.holding {
		d.resume()
	}
}

// check enforces the limits after a charge.
func (d *replyCharge) check() {
	s, limits := d.from, &d.ep.w.accounts.Limits
	if s == nil {
		if d.bytes > limits.StopReplies && !d.holding && d.ep.w.replies.mayHoldUpOthers(d.ep) {
			d.hold(d.bytes / 2)
		}
		return
	}
	limit, most := s.ReplyLimits()
	if d.bytes > limit && !d.holding {
		d.hold(d.bytes / 2)
	}
	if s.uct == nil {
		if d.bytes > most || d.bytes+d.kept > limits.DropReplies {
			d.dropLater(d.bytes + d.kept)
		}
		return
	}
	if s.Unprompted() > limit && !s.Paused() {
		s.stopFor(d.ep)
	}
	if s.ReplyBytes() > limits.DropReplies || s.ReplyBytes() > most && !s.Paused() {
		d.dropLater(s.ReplyBytes())
	}
}

// hold holds back the messages of the peer until the charge for replies to the peer has fallen to a
// number of bytes, the parameter until.
func (d *replyCharge) hold(until int) {
	d.ep.w.stats.HeldBack++
	d.holding, d.resumeAt = true, until
}

// resume ends the effect of hold: the messages of the peer are delivered again.
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
	d.err = fmt.Errorf("ucp: a peer does not read sent data, of which %d bytes are queued: %w", owed, ucs.ErrExceedsLimit)
	d.ep.control(dropSlowPeer{}).requeue()
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
	w.accounts.LogRefusal(s.Account().Ledger(), ledger.Answers, d.err)
	ep.fail(d.err)
	return nil
}

// A call that waits until a reply has left does not wait for a peer that does not read: data that
// the transport has not accepted is copied (request_pool.go). If the send of the copy fails, the
// next flush returns the error, as for short sends that are delegated to another goroutine
// (call.go).
//
// The data of an active message sent by rendezvous leaves when the peer reads or requests the data.
// A call that sends such a reply waits for the peer, unless the reply delays other peers: for
// replyWaitLimit a queue of active messages has a message of another peer and no message is taken
// from the queue, and the reply makes no progress. Then the reply is copied and is done for the
// caller. If the reply cannot be copied the call ends with an error, and the reply stays in flight.
// The peer, which may be stopped for a while, is not dropped; its messages are held back until the
// reply makes progress. No other wait ends after a fixed time.

// replyWaitLimit is how long a call waits for a rendezvous reply that delays other peers.
const replyWaitLimit = 500 * time.Millisecond

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
	if !r.is(kindEager) || r.form.acked || r.data.Length > r.w.accounts.Limits.StopReplies {
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

// watchReplies schedules the next check of the replies that calls wait for, in replyWaitLimit.
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
		t.timer, err = w.uctw.Timers().After(replyWaitLimit, rs.checkReplies)
	} else {
		err = t.timer.Reset(replyWaitLimit)
	}
	t.set = err == nil
}

// checkReplies ends the waits that delay other peers and whose replies make no progress.
func (rs *replyState) checkReplies() {
	w := rs.w
	t := rs
	t.set = false
	for k := len(t.waits) - 1; k >= 0 && k < len(t.waits); k-- { // look removes only the entry with index k
		t.waits[k].checkProgress(w)
	}
	rs.watchReplies()
}

func (a *replyWait) checkProgress(w *Worker) {
	r := a.r
	c := r.waiters
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
	if !w.replies.queuesBlocked() {
		if !was {
			d.resume()
		}
		return
	}
	if !was {
		d.hold(d.bytes - 1)
	}
	w.replies.remove(r)
	if r.data.Length <= w.accounts.Limits.StopReplies && r.w.pool.ownData(r) {
		c.endEarly(nil)
		r.w.replies.detachCaller(r)
		return
	}
	c.endEarly(fmt.Errorf("ucp: a reply of %d bytes that its peer does not receive delays other replies; it continues, and its buffer is in use until the endpoint is closed: %w: %w",
		r.data.Length, ucs.InProgress, ucs.ErrExceedsLimit))
}

// queuesBlocked reports whether a queue of active messages has a message that is not held back, and the
// application has taken no message from it since the last check.
func (rs *replyState) queuesBlocked() bool {
	w := rs.w
	return slices.ContainsFunc(w.am.queues, func(q *AMQueue) bool { return q.taken == q.seen && q.front() != nil })
}

// endEarly ends the wait of a call for an operation that stays in flight. The call returns err.
func (c *call) endEarly(err error) {
	c.detach()
	c.r = nil
	c.w.owner.engine.End(&c.Waiter, err)
}
