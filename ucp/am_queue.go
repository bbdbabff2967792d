package ucp

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/ucx-go/ucx/internal/platform"
	"github.com/ucx-go/ucx/ucp/internal/life"
	"github.com/ucx-go/ucx/ucp/internal/list"
	"github.com/ucx-go/ucx/ucs"
)

// AMQueue queues the active messages of an id, for goroutines that take one message after the
// other instead of being called by a handler. Queued messages are charged to the connections that
// brought them, like messages without a receive (UCX_MAX_UNEXP_BYTES). If a peer does not read
// its replies, its messages stay in the queue until it does, and messages of other peers overtake
// them (Stats.HeldBack). A queue belongs to its worker's goroutine, or in ThreadModeMulti to any
// goroutine.
//
// Messages leave the queue whole, unless AMQueueParams.Offers is set. Data that is still at the
// sender is fetched first: the fetch starts when a caller asks for a message, and each peer has
// at most one fetch in flight. Messages of other peers do not wait for that fetch. Messages of
// one peer come in the order in which they were sent. Over shared memory this holds only for
// messages with AMSendReply, as others do not name their sender. A message is dropped if its data
// cannot be fetched: because the sender or the endpoint to it is gone, or because
// UCX_MAX_UNEXP_BYTES leaves no memory for it, in which case the sender's request ends with
// ucs.ErrNoMemory.
type AMQueue struct {
	_ noCopy

	w            *Worker
	id           uint16
	maxData      int // limit of the data that is fetched, in bytes; -1 with AMQueueParams.Offers
	closed       bool
	list         list.List[AMMessage] // messages that are in no aside, oldest first
	ready        []*senderQueue       // asides to be examined before list
	senderQueues map[any]*senderQueue // the asides, by sender (AMMessage.sender)
	shared       int                  // bytes being fetched from peers in shared memory (sharedPart)
	stalled      []*senderQueue       // asides whose fetch waits until the field shared becomes smaller
	waiters      list.List[Request]   // calls that wait for a message
	created      uint64               // asides created
	taken        uint64               // messages that have left the queue
	seen         uint64               // value of taken when replyState last read it
}

// AMQueueParams are the parameters of Worker.NewAMQueue.
type AMQueueParams struct {
	ID uint16 // the messages' id

	// MaxData is the length, in bytes, of the longest data that is fetched from a sender; 0
	// means DefaultMaxData. Longer data is refused: the message is dropped, and the
	// sender's request ends with ucs.ErrExceedsLimit.
	MaxData int

	// Offers lets messages leave the queue while their data is still at the sender
	// (AMMessage.Offered). The application then fetches the data with Recv or RecvWait,
	// into memory of its own.
	Offers bool
}

// DefaultMaxData is the default of AMQueueParams.MaxData, in bytes.
const DefaultMaxData = 64 << 20

// NewAMQueue makes a queue of the active messages of an id. The queue replaces the handler of the
// id, if there is one.
func (w *Worker) NewAMQueue(p AMQueueParams) (*AMQueue, error) {
	if w.missing() {
		return nil, errMissing("Worker.NewAMQueue", w == nil)
	}
	w.owner.acquire()
	q, err := w.am.newAMQueue(&p)
	w.owner.release()
	return q, err
}

func (as *amState) newAMQueue(p *AMQueueParams) (*AMQueue, error) {
	w := as.w
	switch {
	case !as.on:
		return nil, fmt.Errorf("ucp: NewAMQueue needs FeatureAM and an open worker: %w", ucs.ErrInvalidParam)
	case p.MaxData < 0 || p.Offers && p.MaxData != 0:
		return nil, fmt.Errorf("ucp: NewAMQueue: MaxData is %d and Offers %v, wanted MaxData of 0 or more, and 0 with Offers: %w", p.MaxData, p.Offers, ucs.ErrInvalidParam)
	}
	q := &AMQueue{w: w, id: p.ID, maxData: cmp.Or(p.MaxData, DefaultMaxData)}
	if p.Offers {
		q.maxData = -1
	}
	as.set(p.ID, amEntry{queue: q})
	as.queues = append(as.queues, q)
	return q, nil
}

// Next waits for a message, progressing the worker, and takes the oldest one out of the
// queue. The message is the caller's until Release or Recv. If ctx ends first, or the queue
// is closed, the error matches ucs.ErrCanceled. Each message goes to one caller; in
// ThreadModeMulti to the one that has waited longest.
func (q *AMQueue) Next(ctx context.Context) (*AMMessage, error) {
	if q.missing() {
		return nil, errMissing("AMQueue.Next", q == nil)
	}
	c, err := q.w.waitingCall(startNext)
	if err != nil {
		return nil, err
	}
	c.queue = q
	lost, err := c.await(ctx)
	if lost {
		return nil, err
	}
	m := c.am
	c.drop()
	return m, err
}

// TryNext takes the oldest message out of the queue, if there is one. TryNext does not progress
// the worker.
func (q *AMQueue) TryNext() (*AMMessage, bool) {
	if q.missing() {
		return nil, false
	}
	q.w.owner.acquire()
	m := q.pop()
	q.w.owner.release()
	return m, m != nil
}

// All takes one message after the other out of the queue, as Next does, for a loop
//
//	for m, err := range q.All(ctx)
//
// Each message is valid for its iteration, like a message in a handler: it is released at
// the end of the iteration unless it was received or kept. The first error, because ctx has
// ended or the queue was closed, is the last iteration.
func (q *AMQueue) All(ctx context.Context) func(yield func(*AMMessage, error) bool) {
	return func(yield func(*AMMessage, error) bool) {
		mine := false // the iteration holds the message: it was neither received, kept nor released
		for {
			m, err := q.Next(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			mine, m.loopHolds = true, &mine
			more := yield(m, nil)
			if mine {
				m.Release()
			}
			if !more {
				return
			}
		}
	}
}

// Close releases the messages in the queue and ends the calls that wait. Afterwards
// messages of the id have no handler. A second Close does nothing.
func (q *AMQueue) Close() error {
	if q.missing() {
		return errMissing("AMQueue.Close", q == nil)
	}
	q.w.owner.acquire()
	q.close()
	q.w.owner.release()
	return nil
}

func (q *AMQueue) close() {
	if q.closed {
		return
	}
	q.closed = true
	w := q.w
	if e := w.am.find(q.id); e != nil && e.queue == q {
		*e = amEntry{}
	}
	w.am.queues = slices.DeleteFunc(w.am.queues, func(o *AMQueue) bool { return o == q })
	dropAll(&q.list)
	for _, a := range platform.Ordered(q.senderQueues, (*senderQueue).compare) {
		dropAll(&a.list) // a message that is being fetched is dropped when the fetch ends
	}
	q.ready, q.senderQueues, q.stalled = nil, nil, nil
	for !q.waiters.Empty() {
		q.waiters.Front().Value.finish(ucs.ErrCanceled)
	}
}

func startNext(c *call) (*Request, error) {
	q, w := c.queue, c.queue.w
	if q.closed {
		return nil, fmt.Errorf("ucp: the queue of active messages is closed: %w", ucs.ErrCanceled)
	}
	if c.am = q.pop(); c.am != nil {
		return nil, nil
	}
	r := w.pool.getRequest()
	r.state = stateNext
	r.userData = c
	q.waiters.Push(&r.node)
	return r, nil
}

// pop takes the oldest message that can leave the queue out of it, for the application. It
// returns nil if there is none.
func (q *AMQueue) pop() *AMMessage {
	m := q.front()
	if m == nil {
		return nil
	}
	m.leaveQueue()
	m.giveToApplication()
	q.taken++
	return m
}

// giveToApplication makes a message the application's, as if a handler had kept it.
func (m *AMMessage) giveToApplication() {
	m.state |= amLive | amKept
	m.w.stats.AMRecvs++
	if m.ep != nil && m.ep.life.Stage != life.Gone {
		m.hold()
	}
}

// take queues a message that has arrived, or gives it to a waiting call. If take returns an error,
// the message was dropped.
func (q *AMQueue) take(m *AMMessage) error {
	w := q.w
	if n := q.waiters.Front(); n != nil && q.senderQueues == nil && !q.delays(m) {
		r := n.Value
		m.own()
		m.giveToApplication()
		q.taken++
		m.chargeKept()
		r.userData.(*call).am = m
		r.userData = nil
		r.finish(nil)
		return nil
	}
	from := m.from
	if err := from.Charge(amMessageSize + len(m.data) + len(m.header) + len(m.key)); err != nil {
		m.drop()
		return err
	}
	w.stats.Unexpected++
	m.own()
	m.charge(amMessageSize + cap(m.buf))
	q.list.Push(&m.node)
	from.actives.Add(&m.ofSource)
	q.serve()
	return nil
}

// serve gives queued messages to the calls that wait for messages, as long as there are both.
func (q *AMQueue) serve() {
	for !q.waiters.Empty() {
		r, m := q.waiters.Front().Value, q.pop()
		if m == nil {
			return
		}
		r.userData.(*call).am = m
		r.userData = nil
		r.finish(nil)
	}
}

// leaveQueue takes a message out of its queue.
func (m *AMMessage) leaveQueue() {
	m.node.Remove()
	if m.state&amHeldBack != 0 {
		m.state &^= amHeldBack
		if d := m.replyAccount(); d != nil {
			d.kept -= m.charged
		}
	}
	m.ofSource.Remove()
}

// peerReads continues with the queued messages of a peer that has read its replies. peerDropped
// drops the queued messages of a peer that is about to be dropped because it does not read them.
func (amFamily) peerReads(ep *Endpoint) {
	for _, q := range ep.w.am.queues {
		q.resume(ep.charge.replies)
	}
}

func (amFamily) peerDropped(ep *Endpoint) {
	for _, q := range ep.w.am.queues {
		for _, a := range platform.Ordered(q.senderQueues, (*senderQueue).compare) {
			a.dropChargedTo(ep.charge.replies)
			q.makeReady(a) // the aside may be empty now
		}
	}
}

// resume delivers the held-back messages of a peer that has read its replies. d is the reply
// account of the peer's endpoint.
func (q *AMQueue) resume(d *replyCharge) {
	for _, a := range platform.Ordered(q.senderQueues, (*senderQueue).compare) {
		if n := a.list.Front(); n != nil && n.Value.replyAccount() == d {
			q.makeReady(a)
		}
	}
	q.serve()
}

// dropAll drops all messages of l, a list of a queue. For rendezvous offers among them, the sender's
// request ends with success.
func dropAll(l *list.List[AMMessage]) {
	for !l.Empty() {
		l.Front().Value.giveUp(ucs.OK)
	}
}

// senderQueue holds, in order, the messages of one peer that other messages of the queue may overtake:
// a message that is held back because the peer has too many replies to read (reply_limit.go), or
// whose data is being fetched, and the messages that the peer has sent after it. A message is
// moved to an aside at most once.
type senderQueue struct {
	sender   any
	list     list.List[AMMessage]
	ready    bool       // this aside is in AMQueue.ready
	fetching *AMMessage // message being fetched: it precedes those in list, and is in no list
	shared   int        // bytes of the fetch that are counted in AMQueue.shared
	number   uint64     // number in the order of creation
}

func (a *senderQueue) compare(b *senderQueue) int { return cmp.Compare(a.number, b.number) }

// replyAccount returns the account of replies to the sender that are not read yet, nil if there is none.
func (m *AMMessage) replyAccount() *replyCharge {
	if m.ep == nil || m.ep.charge == nil {
		return nil
	}
	return m.ep.charge.replies
}

// heldBack reports whether the message has to wait until its sender has read replies.
func (m *AMMessage) heldBack() bool {
	d := m.replyAccount()
	return d != nil && d.holding
}

// sender returns a key that the messages of one peer have in common: the connection, or else the
// endpoint. It is nil if the sender is not known.
func (m *AMMessage) sender() any {
	switch {
	case m.from.uct != nil:
		return m.from
	case m.ep != nil:
		return m.ep
	}
	return nil
}

// fetches reports whether the queue has to fetch the data of a message before the message can
// leave it.
func (q *AMQueue) fetches(m *AMMessage) bool { return q.maxData >= 0 && m.state&amOffered != 0 }

// delays reports whether a message cannot leave the queue even if it is the oldest, because its
// data must be fetched first or it is held back.
func (q *AMQueue) delays(m *AMMessage) bool { return q.fetches(m) || m.heldBack() }

// front returns the next message that can leave the queue, nil if there is none.
func (q *AMQueue) front() *AMMessage {
	n := q.list.Front()
	switch {
	case q.senderQueues != nil || n != nil && q.delays(n.Value):
		return q.frontSlow()
	case n == nil:
		return nil
	}
	return n.Value
}

// frontSlow is the slow path of front, for a queue that has asides, or whose oldest message has
// to be moved to an aside. It examines ready asides first. Then it moves messages at the front of
// the list to asides, if they are delayed or their sender has an aside already.
//
//go:noinline
func (q *AMQueue) frontSlow() *AMMessage {
	for {
		if m := q.frontReady(); m != nil {
			return m
		}
		if q.list.Empty() {
			return nil
		}
		m := q.list.Front().Value
		key := m.sender()
		a := q.senderQueues[key]
		if a == nil && !q.delays(m) {
			return m
		}
		if a == nil {
			if q.senderQueues == nil {
				q.senderQueues = make(map[any]*senderQueue)
			}
			q.created++
			a = &senderQueue{sender: key, number: q.created}
			q.senderQueues[key] = a
		}
		m.node.Remove()
		a.list.Push(&m.node)
		if m.heldBack() {
			d := m.replyAccount()
			m.state |= amHeldBack
			d.kept += m.charged
			d.check()
		}
		q.makeReady(a)
	}
}

// makeReady makes frontReady examine the messages of an aside again.
func (q *AMQueue) makeReady(a *senderQueue) {
	if !a.ready {
		a.ready = true
		q.ready = append(q.ready, a)
	}
}

// frontReady returns the next message in the ready asides that can leave the queue, nil if there is
// none. It starts the fetches that are due, and removes empty asides.
func (q *AMQueue) frontReady() *AMMessage {
	for len(q.ready) > 0 {
		a := q.ready[0]
		n := a.list.Front()
		if n != nil && a.fetching == nil && !q.delays(n.Value) {
			return n.Value
		}
		a.ready = false
		q.ready[0] = nil
		q.ready = q.ready[1:]
		switch {
		case a.fetching != nil || n != nil && n.Value.heldBack():
		case n != nil:
			q.fetch(a, n.Value)
		default:
			delete(q.senderQueues, a.sender)
		}
	}
	if len(q.senderQueues) == 0 {
		q.senderQueues, q.ready = nil, nil
	}
	return nil
}

// dropChargedTo drops the messages whose senders share the reply account d.
func (a *senderQueue) dropChargedTo(d *replyCharge) {
	for n := a.list.Front(); n != nil; {
		m, next := n.Value, n.Next()
		if m.replyAccount() == d {
			m.giveUp(ucs.OK)
		}
		n = next
	}
}

// giveUp drops a message of a queue. If the message is an offer, the sender's request ends with
// status.
func (m *AMMessage) giveUp(status ucs.Status) {
	m.leaveQueue()
	m.refuse(status)
	m.drop()
}

// giveUpFetch discharges s for the message whose data is being fetched, if the message came over s.
// The message is dropped when the fetch ends.
func (a *senderQueue) giveUpFetch(s *source) {
	if m := a.fetching; m != nil && m.from == s {
		m.discharge()
		m.state |= amGivenUp
	}
}

// sharedPart limits the bytes that a queue fetches at a time from peers in shared memory to
// 1/sharedPart of UCX_MAX_UNEXP_BYTES. These peers share one account, because their messages do not
// identify the sender. A peer that offers data and never sends it must not use up the whole
// account.
const sharedPart = 4

// mayFetch reports whether the first message of an aside may be fetched now. If so, it reserves
// the message's length in AMQueue.shared; if not, the aside is stalled.
func (q *AMQueue) mayFetch(a *senderQueue, m *AMMessage) bool {
	if m.from.uct != nil {
		return true
	}
	if q.shared > 0 && q.shared+m.length > q.w.accounts.Limits.Bytes/sharedPart {
		q.stalled = append(q.stalled, a)
		return false
	}
	a.shared = m.length
	q.shared += a.shared
	return true
}

// endFetch returns the message of an aside whose fetch has ended, subtracts the fetch from
// AMQueue.shared, and makes the stalled asides ready.
func (q *AMQueue) endFetch(a *senderQueue) *AMMessage {
	m := a.fetching
	a.fetching = nil
	if a.shared > 0 {
		q.shared -= a.shared
		a.shared = 0
		for _, s := range q.stalled {
			q.makeReady(s)
		}
		q.stalled = nil
	}
	q.makeReady(a)
	return m
}

// fetch starts to fetch the data of m, the first message of its aside, into memory that is
// charged to the peer.
func (q *AMQueue) fetch(a *senderQueue, m *AMMessage) {
	w := q.w
	if m.length > q.maxData {
		m.giveUp(ucs.ErrExceedsLimit)
		q.makeReady(a)
		return
	}
	if !q.mayFetch(a, m) {
		return
	}
	m.leaveQueue() // before Charge, which may evict messages that are in queues
	a.fetching = m // before Charge, which may run callbacks of the application
	if err := m.from.Charge(m.length); err != nil || m.state&amGivenUp != 0 {
		q.endFetch(a)
		m.refuse(ucs.ErrNoMemory)
		m.drop()
		return
	}
	m.makeRoom()
	r := w.pool.getRequest()
	r.state, r.mode = stateInCall|stateParams|stateAMRecv, 0
	r.onRecv = func(r *Request, err error, _ int, _ any) {
		r.free()
		q.fetched(a, err)
		q.serve()
	}
	r.data.SetBytes(m.data)
	r.info = TagRecvInfo{Length: m.length}
	was := w.accounts.rndvSource
	w.accounts.rndvSource = m.from
	w.rndv.fetch(r, &m.rndv, m.key)
	w.accounts.rndvSource = was
	r, err := r.result()
	if r == nil {
		q.fetched(a, err)
	}
}

// makeRoom allocates memory for the data that is to be fetched. The memory is new, not from the
// worker's pool: a peer can claim to have written the data without doing so, and the old contents
// of pooled memory would be delivered.
func (m *AMMessage) makeRoom() {
	n := m.length
	b := make([]byte, n+max(m.w.params.AMAlignment-1, 0))
	off := 0
	if len(b) > 0 {
		off = m.w.am.misaligned(b)
	}
	m.data = b[off : off+n : off+n]
	m.charge(len(b))
}

// fetched ends a fetch. A message whose data has arrived goes to the front of its aside;
// otherwise it is dropped.
func (q *AMQueue) fetched(a *senderQueue, err error) {
	m := q.endFetch(a)
	switch {
	case err != nil:
		q.w.ctx.log.Debug("active message dropped: its data could not be fetched", zap.String("worker", q.w.name), zap.Error(err))
		m.state &^= amOffered
		m.drop()
	case q.closed || m.state&amGivenUp != 0:
		m.state &^= amOffered
		m.drop()
	default:
		m.state &^= amOffered
		a.list.PushFront(&m.node)
		m.from.actives.Add(&m.ofSource)
	}
}
