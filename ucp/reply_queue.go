package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// Answers that a peer does not read. Most answers are small: that a message was
// matched, that the data of an offer was taken. The transport takes them at once, as
// long as the peer reads. One that it does not take becomes a record in a queue of the
// endpoint, which one pending request drains, before all else that waits for the lane.
// A record costs about as much as the message that it answers, a request twenty times
// as much.
//
// Answers to one-sided operations with a result are requests: they must leave in the
// order of what they answer, and most have data. Those of operations without one are
// only counted (rmaFlow.completionsOwed). Records and requests are charged to the connection that
// asked. One that owes more than maxReplyBytes is not read any more until it owes half of
// that: so TCP tells the peer to stop. Where that is not possible, or if it owes far
// more (replyMultiple), it is dropped, or the endpoint if there is no connection to
// drop.
//
// Two honest peers that flood each other do not stop for good. A worker stops reading
// a peer only while it waits for nothing from it (awaits). Who is owed answers waits
// for them, so of two workers that owe each other none stops, and as an answer is
// never answered, those who read end up with nothing to answer. If a worker that has
// stopped starts something afterwards its answer comes when it reads again: the peer,
// which waits for answers and thus reads, takes those that are due first. What two
// that do not stop can come to owe is no more than what they read meanwhile without
// getting rid of the answers, which go first: what the buffers of a connection hold,
// some MiB of requests, each of which costs about its size again. replyMultiple times
// maxReplyBytes is far above that.

const (
	maxReplyBytes = 16 << 20  // when the reading of a connection stops
	minReplyBytes = 256 << 10 // the same, where the process is owed much
	replyMultiple = 4         // of these at which it is dropped
)

// answer sends a small answer that r, a request of the library's, describes, or keeps
// a record of it.
func (rs *replyState) answer(ep *Endpoint, r *Request, kind answerKind, from *source) {
	w := ep.w
	if from.detached {
		from = &w.accounts.unnamed
	}
	if ep.needs&r.needs() != 0 {
		w.rma.serve(from, ep, r, nil)
		return
	}
	if ep.charge == nil || ep.charge.answers.count == 0 { // or it would be refused
		err := r.proto.progress(r)
		switch {
		case err == nil:
			return
		case err != ucs.ErrNoResource:
			r.proto.abort(r, err)
			return
		}
	}
	rec := answerRecord{from: from, kind: kind, req: r.peerID, size: r.ackSize, status: r.ackStatus}
	r.state &^= stateFreed
	w.pool.dropRequest(r)
	w.stats.Pending++
	q := &ep.w.accounts.ensureCharge(ep).answers
	q.push(rec)
	from.addReplyBytes(answerSize)
	if q.drain == nil {
		q.drain = ep.control(sendAnswers{})
		if d := q.drain; ep.lane(d.lane).PendingAdd(&d.pend) != nil {
			d.run() // there is room again, or the lane has failed
		}
	}
	from.checkReplyBytes(ep)
	if int(q.count)*answerSize > w.accounts.maxReplyBytes && from.uct == nil {
		ep.fail(fmt.Errorf("the peer does not read its replies: %w", ucs.ErrExceedsLimit))
	}
}

// sendAnswers sends the records of an endpoint.
type sendAnswers struct{ basics }

func (sendAnswers) about() protocolInfo { return protocolInfo{name: "answers"} }

func (sendAnswers) progress(r *Request) error {
	q := &r.ep.charge.answers
	if q.draining {
		return nil // up the stack
	}
	q.draining = true
	defer func() { q.draining = false }()
	for q.count > 0 {
		a := q.front()
		q.pop() // before the call: the peer may be this worker
		err := a.send(r)
		if err != nil && err != ucs.InProgress {
			q.unpop(a)
			return err
		}
		a.from.subReplyBytes(answerSize)
	}
	if r.pend.Queued() && r != r.w.dispatching {
		return nil // another request's turn, which lets answers go first; ours comes
	}
	q.drain = nil
	r.finish(nil)
	return nil
}

// send sends one record by the request of the queue.
func (a *answerRecord) send(r *Request) error {
	ue := r.ep.lane(r.lane)
	r.peerID, r.step = a.req, uint8(a.kind)
	r.ackSize, r.ackStatus = a.size, a.status
	_, err := ue.AMBcopy(uct.AMID(answerIDs[a.kind]), r.hooks(), 0, nil)
	return err
}

func (sendAnswers) pack(r *Request, dst []byte) int {
	req := proto.RequestID(r.peerID)
	if answerKind(r.step) == answerSync {
		return proto.EagerSyncAck{ReqID: req}.Put(dst)
	}
	return proto.RndvAck{ReqID: req, Status: r.ackStatus, Size: r.ackSize, HasSize: true}.Put(dst)
}

// release gives up what could not be sent: the endpoint has failed.
func (sendAnswers) release(r *Request) {
	q := &r.ep.charge.answers
	if q.drain == r {
		q.drain = nil
	}
	for q.count > 0 && q.drain == nil {
		a := q.front()
		q.pop()
		a.from.subReplyBytes(answerSize)
	}
}

// answerKind says what a record is.
type answerKind uint8

const (
	answerSync answerKind = iota // a synchronous message was matched
	answerATS                    // an offer is over
	answerATP                    // the data of an offer is not coming
)

// answerIDs are their messages.
var answerIDs = [...]proto.AMID{answerSync: proto.IDEagerSyncAck, answerATS: proto.IDRndvATS, answerATP: proto.IDRndvATP}

// answerRecord is a small answer that waits.
type answerRecord struct {
	from   *source // which pays for it
	req    uint64  // the peer's request
	size   int     // bytes that it is about
	kind   answerKind
	status ucs.Status
}

// answerSize is what a record is charged with.
const answerSize = 32

// chunkLen is how many records a chunk of 4 KiB has room for.
const chunkLen = 127

// answerChunk is a piece of the queue.
type answerChunk struct {
	next *answerChunk
	list [chunkLen]answerRecord
}

// answerQueue is a FIFO of records. It has a request that drains it as long as it is
// not empty.
type answerQueue struct {
	head, tail *answerChunk
	first, end uint32 // in head and in tail
	drain      *Request
	count      uint32
	draining   bool
}

func (q *answerQueue) push(a answerRecord) {
	if q.tail == nil || q.end == chunkLen {
		c := new(answerChunk)
		if q.tail == nil {
			q.head, q.first = c, 0
		} else {
			q.tail.next = c
		}
		q.tail, q.end = c, 0
	}
	q.tail.list[q.end] = a
	q.end++
	q.count++
}

// front is the oldest record; there must be one.
func (q *answerQueue) front() answerRecord { return q.head.list[q.first] }

// pop takes the oldest record out.
func (q *answerQueue) pop() {
	q.head.list[q.first] = answerRecord{}
	q.first++
	q.count--
	switch {
	case q.count == 0:
		q.head, q.tail, q.first, q.end = nil, nil, 0, 0
	case q.first == chunkLen:
		q.head, q.first = q.head.next, 0
	}
}

// unpop puts back what was just taken out.
func (q *answerQueue) unpop(a answerRecord) {
	if q.first == 0 {
		c := &answerChunk{next: q.head}
		if q.head == nil {
			q.tail, q.end = c, chunkLen
		}
		q.head, q.first = c, chunkLen
	}
	q.first--
	q.head.list[q.first] = a
	q.count++
}

// before reports whether answers wait that go before r, which waits on the same lane.
func (q *answerQueue) before(r *Request) bool {
	return q.count > 0 && !q.draining && q.drain != r && q.drain != nil && q.drain.lane == r.lane
}
