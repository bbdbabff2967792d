package ucp

import (
	"fmt"

	"github.com/ucx-go/ucx/proto"
	"github.com/ucx-go/ucx/ucs"
	"github.com/ucx-go/ucx/uct"
)

// The queue of answers that a peer does not read. An answer is a response of the library itself.
// Most answers are small: a message was matched, the data of an offer was taken. As long as the
// peer reads, the transport takes an answer at once. An answer that the transport does not take
// becomes a record in a queue of the endpoint. One pending request drains the queue, before all
// else that waits for the lane. A record costs about as much memory as the message that it
// answers; a request would cost twenty times as much.
//
// Answers to one-sided operations with a result are requests: they must leave in the order of the
// operations, and most have data. Answers to operations without a result are only counted
// (rmaFlow.completionsOwed). Records and requests are charged to the connection of the peer that
// asked. A connection that owes more than maxReplyBytes, the bytes of answers that its peer has
// not read, is not read until it owes half of that; TCP thus tells the peer to stop. A connection
// that cannot be stopped so, or that owes far more (replyMultiple), is dropped. If there is no
// connection to drop the endpoint fails.
//
// Two honest peers that flood each other do not stop forever. A worker stops reading a peer only
// while the worker waits for nothing from the peer (awaits). A worker that is owed answers waits
// for them, so of two workers that owe each other answers neither stops. An answer is never
// answered, so workers that read end up with nothing to answer. If a worker that has stopped
// reading starts an operation afterwards, the answer comes when the worker reads again: the peer
// waits for answers, so it reads, and takes those that are due first. What two workers that do
// not stop can come to owe is bounded by what they read while their answers, which go first, do
// not leave: what the buffers of a connection hold, some MiB of requests, each of which costs
// about its size again. replyMultiple times maxReplyBytes is far above that.

const (
	maxReplyBytes = 16 << 20  // bytes owed at which the worker stops reading a connection
	minReplyBytes = 256 << 10 // the same, when the process is owed much
	replyMultiple = 4         // multiple of these at which the connection is dropped
)

// answer sends the small answer that r, a request of the library, describes, or queues a record
// of the answer. The answer is charged to from.
func (rs *replyState) answer(ep *Endpoint, r *Request, kind answerKind, from *source) {
	w := ep.w
	if from.detached {
		from = &w.accounts.unnamed
	}
	if ep.needs&r.needs() != 0 {
		w.rma.serve(from, ep, r, nil)
		return
	}
	if ep.charge == nil || ep.charge.answers.count == 0 { // a lane with queued answers would refuse it
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
		return nil // a call of progress up the stack drains the queue
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
		return nil // another request is being dispatched, and lets answers go first; r is dispatched later
	}
	q.drain = nil
	r.finish(nil)
	return nil
}

// send sends one record with the request that drains the queue.
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

// release drops the records that could not be sent, because the endpoint has failed.
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

// answerKind is the kind of an answer.
type answerKind uint8

const (
	answerSync answerKind = iota // a synchronous message was matched
	answerATS                    // an offer is done
	answerATP                    // the data of an offer is not coming
)

// answerIDs are the message ids of the kinds.
var answerIDs = [...]proto.AMID{answerSync: proto.IDEagerSyncAck, answerATS: proto.IDRndvATS, answerATP: proto.IDRndvATP}

// answerRecord is a small answer that waits in a queue.
type answerRecord struct {
	from   *source // the source that is charged
	req    uint64  // id of the peer's request
	size   int     // bytes that the answer is about
	kind   answerKind
	status ucs.Status
}

// answerSize is how many bytes a record is charged with.
const answerSize = 32

// chunkLen is how many records a chunk of 4 KiB has room for.
const chunkLen = 127

// answerChunk is a part of an answerQueue.
type answerChunk struct {
	next *answerChunk
	list [chunkLen]answerRecord
}

// answerQueue is a FIFO of records. While the queue is not empty it has a request that drains it.
type answerQueue struct {
	head, tail *answerChunk
	first, end uint32 // index of the oldest record in head, and of the end in tail
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

// front returns the oldest record; the queue must not be empty.
func (q *answerQueue) front() answerRecord { return q.head.list[q.first] }

// pop removes the oldest record.
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

// unpop puts back the record that was just removed.
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

// before reports whether the queue has answers that must be sent before r, which waits on the
// same lane.
func (q *answerQueue) before(r *Request) bool {
	return q.count > 0 && !q.draining && q.drain != r && q.drain != nil && q.drain.lane == r.lane
}
